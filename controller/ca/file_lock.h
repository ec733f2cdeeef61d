// An advisory lock between processes that write one directory; held until destroyed. flock(2) on <dir>/lock.
#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/result.h"

namespace poolmark::controller {

class FileLock {
 public:
  static Result<FileLock> Take(const std::string& dir) {
    const std::string path = JoinPath(dir, "lock");
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return FromErrno(path, "opening it", errno);
    while (flock(fd, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      int error = errno;
      close(fd);
      return FromErrno(path, "locking it", error);
    }
    return FileLock(fd);
  }
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock() {
    if (fd_ >= 0) close(fd_);
  }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace poolmark::controller
