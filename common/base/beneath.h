// Opens files below a directory that others may write to, without leaving it and without following any link.
// The kernel does it where it can (openat2, Linux 5.6); where that call is not to be had (an older kernel, or
// systemd's RestrictSUIDSGID, which cannot look into its arguments and answers ENOSYS) every part of the path
// is opened by itself. For a directory that only its owner writes, plain open is enough. Thread-safe.
#pragma once
#include <string>

namespace poolmark {

// A file descriptor (close-on-exec), or -1 with errno: EXDEV for a path that would leave the directory, ELOOP
// for one with a link in it. `flags` and `mode` are open's.
int OpenBeneath(int directory, const std::string& path, int flags, unsigned mode = 0);
// The same without openat2.
int WalkBeneath(int directory, const std::string& path, int flags, unsigned mode = 0);

}  // namespace poolmark
