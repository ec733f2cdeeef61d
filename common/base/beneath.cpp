#include "common/base/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace poolmark {
namespace {

// openat that follows no link; a link is ELOOP also where the kernel says ENOTDIR.
int OpenPart(int directory, const std::string& name, int flags, unsigned mode) {
  const int fd = openat(directory, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd >= 0 || errno != ENOTDIR) return fd;
  struct stat info {};
  const bool link =
      fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
  errno = link ? ELOOP : ENOTDIR;
  return -1;
}

}  // namespace

int WalkBeneath(int directory, const std::string& path, int flags, unsigned mode) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    errno = path.empty() ? ENOENT : EINVAL;
    return -1;
  }
  if (path[0] == '/') {
    errno = EXDEV;
    return -1;
  }
  int at = directory;  // of ours to close when it is not the caller's
  size_t begin = 0;
  int fd = -1;
  while (true) {
    const size_t slash = path.find('/', begin);
    const bool last = slash == std::string::npos;
    std::string name = path.substr(begin, last ? std::string::npos : slash - begin);
    if (name.empty()) name = ".";
    if (name == "..") {  // also one that stays below: nobody needs it
      errno = EXDEV;
      fd = -1;
    } else {
      fd = OpenPart(at, name, last ? flags : O_PATH | O_DIRECTORY, last ? mode : 0);
    }
    if (at != directory) {
      const int why = errno;
      close(at);
      errno = why;
    }
    if (fd < 0 || last) return fd;
    at = fd;
    begin = slash + 1;
  }
}

int OpenBeneath(int directory, const std::string& path, int flags, unsigned mode) {
  if (path.find('\0') != std::string::npos) {
    errno = EINVAL;
    return -1;
  }
  open_how how{};
  how.flags = static_cast<unsigned>(flags) | O_CLOEXEC;
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;  // else the call refuses it
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const int fd = static_cast<int>(syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
  return WalkBeneath(directory, path, flags, mode);
}

}  // namespace poolmark
