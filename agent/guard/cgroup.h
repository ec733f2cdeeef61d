// A cgroup v2 group of our own: what is started in it cannot leave it by fork, setsid or daemonising, and
// one write kills all of it. Works on hybrid hosts too, where cgroup2 is mounted without controllers.
// Not thread-safe.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "agent/guard/fault.h"

namespace poolmark::guard {

// The mount point of cgroup2 in the text of /proc/self/mountinfo; empty: none.
std::string Cgroup2Mount(std::string_view mountinfo);
// Our own path ("/system.slice/x.service") in the text of /proc/self/cgroup; empty: none.
std::string OwnCgroup(std::string_view cgroup_text);
// The directory below which groups of runs are made: <mount><own path>/poolmark; empty: no cgroup2.
std::string CgroupBase();

// mkdir, parents up to the base included. It must not exist before (code "exists").
Fault MakeCgroup(const std::string& path);
// Pids in the group and in those below. Zombies are not among them.
std::vector<pid_t> CgroupMembers(const std::string& path);
bool CgroupExists(const std::string& path);
// False when the group is gone or holds no living process.
bool CgroupPopulated(const std::string& path);
// cgroup.kill; on kernels without it (before 5.14) SIGKILL to each member.
Fault KillCgroup(const std::string& path);
// Removes the group and those below it, all of which must be empty; absent is well.
Fault RemoveCgroup(const std::string& path);

}  // namespace poolmark::guard
