#include "agent/guard/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <sstream>

namespace poolmark::guard {
namespace {

const std::string kPrefix = std::string(kShmDirectory) + "/";

void AddIfSegment(std::string_view path, std::set<std::string>* names) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.substr(0, kPrefix.size()) != kPrefix) return;
  path.remove_prefix(kPrefix.size());
  if (path.size() > kDeleted.size() && path.substr(path.size() - kDeleted.size()) == kDeleted) return;
  names->insert(std::string(path.substr(0, path.find('/'))));
}

}  // namespace

std::map<std::string, uint64_t> PosixSegments() {
  std::map<std::string, uint64_t> segments;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(kShmDirectory), closedir);
  while (directory) {
    dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") segments[name] = entry->d_ino;
  }
  return segments;
}

std::vector<SysvSegment> ParseSysv(const std::string& text) {
  std::vector<SysvSegment> segments;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the head: key shmid perms size cpid lpid …
  while (std::getline(lines, line)) {
    long key = 0;
    int id = 0;
    unsigned perms = 0;
    unsigned long long size = 0;
    int creator = 0;
    long long changed = 0;
    // After the creator: lpid nattch uid gid cuid cgid atime dtime ctime.
    if (std::sscanf(line.c_str(), "%ld %d %o %llu %d %*d %*u %*u %*u %*u %*u %*d %*d %lld", &key, &id, &perms,
                    &size, &creator, &changed) == 6) {
      segments.push_back(SysvSegment{id, creator, size, changed});
    }
  }
  return segments;
}

std::vector<SysvSegment> SysvSegments() {
  return ParseSysv(ReadPseudo("/proc/sysvipc/shm"));
}

ShmBaseline TakeShmBaseline() {
  ShmBaseline baseline;
  baseline.posix = PosixSegments();
  for (const SysvSegment& segment : SysvSegments()) baseline.sysv.insert(segment.id);
  return baseline;
}

std::set<std::string> SegmentsHeldBy(const std::vector<Member>& members) {
  std::set<std::string> names;
  for (const Member& member : members) {
    std::string root = "/proc/" + std::to_string(member.pid);
    std::istringstream maps(ReadPseudo(root + "/maps", 64u << 20));
    std::string line;
    while (std::getline(maps, line)) {
      size_t path = line.find('/');
      if (path != std::string::npos) AddIfSegment(std::string_view(line).substr(path), &names);
    }
    std::unique_ptr<DIR, int (*)(DIR*)> fds(opendir((root + "/fd").c_str()), closedir);
    while (fds) {
      dirent* entry = readdir(fds.get());
      if (entry == nullptr) break;
      char target[512];
      ssize_t length = readlinkat(dirfd(fds.get()), entry->d_name, target, sizeof target);
      if (length > 0) AddIfSegment(std::string_view(target, static_cast<size_t>(length)), &names);
    }
  }
  return names;
}

bool RemovePosixSegment(const std::string& name, uint64_t inode) {
  std::string path = kPrefix + name;
  struct stat facts;
  if (lstat(path.c_str(), &facts) != 0) return errno == ENOENT;
  if (facts.st_ino != inode) return true;  // ours is gone; this one is another's
  if (S_ISDIR(facts.st_mode)) return rmdir(path.c_str()) == 0;
  return unlink(path.c_str()) == 0 && lstat(path.c_str(), &facts) != 0;
}

bool RemoveSysvSegment(int id) {
  if (shmctl(id, IPC_RMID, nullptr) != 0 && errno != EINVAL && errno != EIDRM) return false;
  for (const SysvSegment& segment : SysvSegments()) {
    if (segment.id == id) return false;  // marked, but somebody is still attached
  }
  return true;
}

}  // namespace poolmark::guard
