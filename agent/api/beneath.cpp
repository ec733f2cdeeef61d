#include "agent/api/beneath.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/beneath.h"

namespace poolmark::agent {
namespace {

guard::UniqueFd Resolve(int root, const std::string& path, int flags, unsigned mode = 0) {
  return guard::UniqueFd(poolmark::OpenBeneath(root, path, flags, mode));
}

Status Refusal(const std::string& path, int error_number) {
  if (error_number == ENOENT) return NotFound(path, "there is no such file below the job's directory");
  if (error_number == EXDEV || error_number == ELOOP) {
    return InvalidInput(path, "the path leaves the job's directory or goes through a link",
                        "name a plain relative path");
  }
  return FromErrno(path, "open", error_number);
}

Result<guard::UniqueFd> OpenRoot(const std::string& root) {
  guard::UniqueFd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return FromErrno(root, "open the job's directory", errno);
  return fd;
}

Status Walk(int directory, const std::string& prefix, size_t limit, int depth,
            std::vector<FoundFile>* files) {
  if (depth > 64) return InvalidInput(prefix, "nested more than 64 deep");
  std::unique_ptr<DIR, int (*)(DIR*)> handle(fdopendir(dup(directory)), closedir);
  if (!handle) return FromErrno(prefix, "list", errno);
  while (dirent* entry = readdir(handle.get())) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat facts;
    if (fstatat(directory, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
    std::string path = prefix.empty() ? name : absl::StrCat(prefix, "/", name);
    if (S_ISREG(facts.st_mode)) {
      if (files->size() >= limit)
        return ToStatus(Error{absl::StatusCode::kResourceExhausted, "too_many", prefix,
                              absl::StrCat("more than ", limit, " files"), "list a directory below it"});
      files->push_back({path, static_cast<uint64_t>(facts.st_size)});
    } else if (S_ISDIR(facts.st_mode)) {
      guard::UniqueFd child(openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      if (child) POOLMARK_RETURN_IF_ERROR(Walk(child.get(), path, limit, depth + 1, files));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Result<guard::UniqueFd> OpenBeneath(const std::string& root, const std::string& path, uint64_t* size) {
  POOLMARK_ASSIGN_OR_RETURN(guard::UniqueFd top, OpenRoot(root));
  if (path.empty() || path.find('\0') != std::string::npos)
    return InvalidInput("path", "is empty or holds a NUL byte");
  guard::UniqueFd fd = Resolve(top.get(), path, O_RDONLY | O_NONBLOCK);
  if (!fd) return Refusal(path, errno);
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return InvalidInput(path, "is no regular file");
  *size = static_cast<uint64_t>(facts.st_size);
  return fd;
}

Status WriteBeneath(const std::string& root, const std::string& path, std::string_view content,
                    std::optional<unsigned> uid, std::optional<unsigned> gid) {
  POOLMARK_ASSIGN_OR_RETURN(guard::UniqueFd top, OpenRoot(root));
  guard::UniqueFd fd = Resolve(top.get(), path, O_WRONLY | O_CREAT | O_NONBLOCK, 0644);
  if (!fd) return Refusal(path, errno);
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink != 1) {
    return InvalidInput(path, "is no plain file");
  }
  if (ftruncate(fd.get(), 0) != 0) return FromErrno(path, "truncate", errno);
  if ((uid || gid) && fchown(fd.get(), uid.value_or(-1), gid.value_or(-1)) != 0)
    return FromErrno(path, "chown", errno);
  while (!content.empty()) {
    ssize_t wrote = write(fd.get(), content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return FromErrno(path, "write", errno);
    content.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

Result<std::vector<FoundFile>> ListBeneath(const std::string& root, const std::string& directory,
                                           size_t limit) {
  POOLMARK_ASSIGN_OR_RETURN(guard::UniqueFd top, OpenRoot(root));
  guard::UniqueFd fd = Resolve(top.get(), directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY);
  if (!fd) return Refusal(directory, errno);
  std::vector<FoundFile> files;
  POOLMARK_RETURN_IF_ERROR(Walk(fd.get(), directory, limit, 0, &files));
  std::sort(files.begin(), files.end(),
            [](const FoundFile& a, const FoundFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace poolmark::agent
