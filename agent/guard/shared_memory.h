// Shared memory that engines leave behind: files in /dev/shm (POSIX segments and semaphores) and System V
// segments. A baseline is taken before the first process starts; afterwards only what is proven to have
// been made by one of our processes is ours to remove. Reads the real machine; not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/guard/containment.h"

namespace poolmark::guard {

inline constexpr char kShmDirectory[] = "/dev/shm";

// Name -> inode of the files in /dev/shm.
std::map<std::string, uint64_t> PosixSegments();

struct SysvSegment {
  int id = 0;
  pid_t creator = 0;
  uint64_t bytes = 0;
  int64_t changed = 0;  // seconds of the wall clock: when it was made, or its owner set since
};
// From the text of /proc/sysvipc/shm; malformed lines are left out.
std::vector<SysvSegment> ParseSysv(const std::string& text);
std::vector<SysvSegment> SysvSegments();

struct ShmBaseline {
  std::map<std::string, uint64_t> posix;
  std::set<int> sysv;
};
ShmBaseline TakeShmBaseline();

// Names in /dev/shm that one of `members` has open or mapped now.
std::set<std::string> SegmentsHeldBy(const std::vector<Member>& members);
// Removes the file if it still is that inode. True: it is gone.
bool RemovePosixSegment(const std::string& name, uint64_t inode);
bool RemoveSysvSegment(int id);

}  // namespace poolmark::guard
