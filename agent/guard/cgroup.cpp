#include "agent/guard/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <charconv>
#include <memory>

#include "agent/guard/proc.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::guard {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string> Below(const std::string& path) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  while (directory) {
    dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") names.push_back(path + "/" + name);
  }
  return names;
}

Fault WriteFile(const std::string& path, std::string_view text) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Fault::Errno("write '" + path + "'");
  }
  return {};
}

}  // namespace

std::string Cgroup2Mount(std::string_view mountinfo) {
  for (std::string_view line : Split(mountinfo, '\n')) {
    size_t dash = line.find(" - cgroup2 ");
    if (dash == std::string_view::npos) continue;
    auto fields = Split(line.substr(0, dash), ' ');
    // Only a mount of the whole hierarchy as we see it: its root field is "/".
    if (fields.size() > 4 && fields[3] == "/") return std::string(fields[4]);
  }
  return "";
}

std::string OwnCgroup(std::string_view cgroup_text) {
  for (std::string_view line : Split(cgroup_text, '\n')) {
    if (line.substr(0, 3) == "0::") return std::string(line.substr(3));
  }
  return "";
}

std::string CgroupBase() {
  std::string mount = Cgroup2Mount(ReadPseudo("/proc/self/mountinfo"));
  std::string own = OwnCgroup(ReadPseudo("/proc/self/cgroup"));
  if (mount.empty() || own.empty()) return "";
  return mount + (own == "/" ? "" : own) + "/poolmark";
}

Fault MakeCgroup(const std::string& path) {
  std::string parent = path.substr(0, path.rfind('/'));
  // Another run may remove the empty parent between the two calls; then once more.
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return Fault::Errno("mkdir '" + parent + "'");
    if (mkdir(path.c_str(), 0755) == 0) return {};
    if (errno == EEXIST) return Fault("exists", "cgroup '" + path + "' exists already");
    if (errno != ENOENT) break;
  }
  return Fault::Errno("mkdir '" + path + "'");
}

std::vector<pid_t> CgroupMembers(const std::string& path) {
  std::vector<pid_t> pids;
  const std::string text = ReadPseudo(path + "/cgroup.procs", 64u << 20);
  for (std::string_view line : Split(text, '\n')) {
    pid_t pid = 0;
    auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), pid);
    if (error == std::errc() && end != line.data() && pid > 0) pids.push_back(pid);
  }
  for (const std::string& child : Below(path)) {
    for (pid_t pid : CgroupMembers(child)) pids.push_back(pid);
  }
  return pids;
}

bool CgroupExists(const std::string& path) {
  return access((path + "/cgroup.events").c_str(), F_OK) == 0;
}

bool CgroupPopulated(const std::string& path) {
  return ReadPseudo(path + "/cgroup.events", 4096).find("populated 1") != std::string::npos;
}

Fault KillCgroup(const std::string& path) {
  Fault fault = WriteFile(path + "/cgroup.kill", "1");
  if (fault.ok()) return fault;
  for (int round = 0; round < 100 && CgroupPopulated(path); ++round) {
    for (pid_t pid : CgroupMembers(path)) {
      auto stat = ReadStat(pid);
      if (stat) SignalPid(OpenPid(pid, stat->start_time).get(), SIGKILL);
    }
  }
  return CgroupPopulated(path) ? fault : Fault();
}

Fault RemoveCgroup(const std::string& path) {
  for (const std::string& child : Below(path)) {
    Fault fault = RemoveCgroup(child);
    if (!fault.ok()) return fault;
  }
  if (rmdir(path.c_str()) != 0 && errno != ENOENT) return Fault::Errno("rmdir '" + path + "'");
  return {};
}

}  // namespace poolmark::guard
