#include "common/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace poolmark {
namespace {

// Closes a descriptor at scope end.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

std::string DirName(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status WriteAll(int fd, const std::string& path, std::string_view content) {
  while (!content.empty()) {
    ssize_t wrote = write(fd, content.data(), content.size());
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return FromErrno(path, "writing", errno);
    }
    content.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

Result<std::string> ReadAll(int fd, const std::string& path, uint64_t limit, uint64_t expected) {
  std::string content;
  content.reserve(std::min(expected, limit) + 1);
  char buffer[1 << 16];
  for (;;) {
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0) {
      if (errno == EINTR) continue;
      return FromErrno(path, "reading", errno);
    }
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
    if (content.size() > limit) {
      return InvalidInput(path, absl::StrCat("larger than ", limit, " bytes, the most that is read here"));
    }
  }
}

// Removes the entry `name` below `parent`, whatever it is; counts what went.
Status RemoveAt(int parent, const std::string& name, const std::string& shown, uint64_t* removed) {
  if (unlinkat(parent, name.c_str(), 0) == 0) {
    ++*removed;
    return absl::OkStatus();
  }
  if (errno == ENOENT) return absl::OkStatus();
  if (errno != EISDIR && errno != EPERM) return FromErrno(shown, "removing", errno);
  int fd = openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? absl::OkStatus() : FromErrno(shown, "opening for removal", errno);
  DIR* dir = fdopendir(fd);
  if (dir == nullptr) {
    close(fd);
    return FromErrno(shown, "listing", errno);
  }
  Status status = absl::OkStatus();
  while (dirent* entry = readdir(dir)) {
    std::string child = entry->d_name;
    if (child == "." || child == "..") continue;
    Status step = RemoveAt(fd, child, shown + "/" + child, removed);
    if (!step.ok()) status = step;  // go on: remove what can be removed
  }
  closedir(dir);
  if (!status.ok()) return status;
  if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    return FromErrno(shown, "removing", errno);
  ++*removed;
  return absl::OkStatus();
}

Status ListBelow(const std::string& root, const std::string& relative, std::vector<std::string>* out) {
  POOLMARK_ASSIGN_OR_RETURN(std::vector<std::string> names,
                            ListDir(relative.empty() ? root : JoinPath(root, relative)));
  for (const std::string& name : names) {
    std::string child = relative.empty() ? name : JoinPath(relative, name);
    struct stat info {};
    if (lstat(JoinPath(root, child).c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) POOLMARK_RETURN_IF_ERROR(ListBelow(root, child, out));
    if (S_ISREG(info.st_mode)) out->push_back(child);
  }
  return absl::OkStatus();
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, uint64_t limit) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return FromErrno(path, "opening", errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return FromErrno(path, "reading", errno);
  if (S_ISDIR(info.st_mode)) return InvalidInput(path, "is a directory, a file is needed");
  if (!S_ISREG(info.st_mode)) return InvalidInput(path, "is no regular file");
  if (static_cast<uint64_t>(info.st_size) > limit) {
    return InvalidInput(path, absl::StrCat(info.st_size, " bytes, at most ", limit, " are read here"));
  }
  return ReadAll(fd.get(), path, limit, static_cast<uint64_t>(info.st_size));
}

Result<std::string> ReadPseudoFile(const std::string& path, uint64_t limit) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return FromErrno(path, "opening", errno);
  return ReadAll(fd.get(), path, limit, 4096);
}

Status AtomicWriteFile(const std::string& path, std::string_view content, unsigned mode) {
  std::string temporary = path + ".tmp";
  Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (fd.get() < 0) return FromErrno(temporary, "creating", errno);
  Status status = WriteAll(fd.get(), temporary, content);
  if (status.ok() && fsync(fd.get()) != 0) status = FromErrno(temporary, "syncing", errno);
  if (close(fd.release()) != 0 && status.ok()) status = FromErrno(temporary, "closing", errno);
  if (status.ok()) status = RenameDurably(temporary, path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

Status AppendFile(const std::string& path, std::string_view content, bool sync, unsigned mode) {
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, mode));
  if (fd.get() < 0) return FromErrno(path, "opening to append", errno);
  POOLMARK_RETURN_IF_ERROR(WriteAll(fd.get(), path, content));
  if (sync && fdatasync(fd.get()) != 0) return FromErrno(path, "syncing", errno);
  return absl::OkStatus();
}

Status RenameDurably(const std::string& from, const std::string& to) {
  // A device, a pipe or a socket would be gone for all of the machine ("--out /dev/null" as root).
  struct stat there {};
  if (stat(to.c_str(), &there) == 0 && (S_ISCHR(there.st_mode) || S_ISBLK(there.st_mode) ||
                                        S_ISFIFO(there.st_mode) || S_ISSOCK(there.st_mode)))
    return InvalidInput(to, "is no regular file and is not replaced", "name a file, or leave the option out");
  if (rename(from.c_str(), to.c_str()) != 0)
    return FromErrno(to, absl::StrCat("renaming '", from, "' into place"), errno);
  return SyncDirectory(DirName(to));
}

Status SyncDirectory(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return FromErrno(path, "opening the directory", errno);
  if (fsync(fd.get()) != 0) return FromErrno(path, "syncing the directory", errno);
  return absl::OkStatus();
}

Status MakeDirs(const std::string& path, unsigned mode) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    std::string part = path.substr(0, slash);
    if (!part.empty() && mkdir(part.c_str(), mode) != 0 && errno != EEXIST)
      return FromErrno(part, "making the directory", errno);
    if (slash == std::string::npos) break;
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return FromErrno(path, "making the directory", errno);
  if (!S_ISDIR(info.st_mode)) return InvalidInput(path, "exists and is no directory");
  return absl::OkStatus();
}

bool FileExists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

Result<uint64_t> RemoveTree(const std::string& path) {
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  size_t slash = clean.rfind('/');
  std::string name = slash == std::string::npos ? clean : clean.substr(slash + 1);
  if (name.empty() || name == "." || name == "..")
    return InvalidInput(path, "is no path that may be removed");
  Fd parent(open(DirName(clean).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  uint64_t removed = 0;
  if (parent.get() < 0) {
    if (errno == ENOENT) return removed;
    return FromErrno(DirName(clean), "opening", errno);
  }
  POOLMARK_RETURN_IF_ERROR(RemoveAt(parent.get(), name, clean, &removed));
  return removed;
}

Result<std::vector<std::string>> ListDir(const std::string& path) {
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return FromErrno(path, "listing", errno);
  std::vector<std::string> names;
  while (dirent* entry = readdir(dir)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<std::string>> ListTree(const std::string& path) {
  std::vector<std::string> out;
  POOLMARK_RETURN_IF_ERROR(ListBelow(path, "", &out));
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::string> MakeTempDir(const std::string& prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string path = JoinPath(base != nullptr && *base != 0 ? base : "/tmp", prefix + "XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return FromErrno(path, "making a temporary directory", errno);
  return path;
}

std::string JoinPath(std::string_view left, std::string_view right) {
  std::string path(left);
  if (!path.empty() && path.back() != '/') path += '/';
  path += right;
  return path;
}

}  // namespace poolmark
