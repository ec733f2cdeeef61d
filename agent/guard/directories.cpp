#include "agent/guard/directories.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>

namespace poolmark::guard {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

// Opens the parent of `absolute`, which lies below `base`, without following links below the base.
Fault OpenParent(const std::string& base, const std::string& absolute, UniqueFd* parent, std::string* name) {
  std::vector<std::string> parts;
  if (absolute.compare(0, base.size() + 1, base + "/") != 0) {
    return Fault("outside", "directory '" + absolute + "' is not below '" + base + "'");
  }
  Fault fault = SplitRelative(absolute.substr(base.size() + 1), &parts);
  if (!fault.ok()) return fault;
  UniqueFd fd(open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; fd && i + 1 < parts.size(); ++i)
    fd = UniqueFd(openat(fd.get(), parts[i].c_str(), kOpenDirectory));
  if (!fd) return Fault::Errno("open the parent of '" + absolute + "'");
  *parent = std::move(fd);
  *name = parts.back();
  return {};
}

class Remover {
 public:
  Remover(dev_t device, const std::function<void()>& breathe) : device_(device), breathe_(breathe) {}

  // Empties the directory behind `fd`; false: something stays.
  bool Empty(int fd, const std::string& path, int depth) {
    if (depth > 1000) return Stay(path, "nested too deeply");
    std::unique_ptr<DIR, int (*)(DIR*)> directory(fdopendir(dup(fd)), closedir);
    if (!directory) return Stay(path, std::strerror(errno));
    bool all = true;
    while (true) {
      errno = 0;
      dirent* entry = readdir(directory.get());
      if (entry == nullptr) break;
      std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      all = RemoveEntry(fd, name, path + "/" + name, depth) && all;
    }
    return all;
  }

  RemovedTree result;

 private:
  bool RemoveEntry(int parent, const std::string& name, const std::string& path, int depth) {
    if (breathe_ && ++looked_ % 256 == 0) breathe_();
    struct stat facts;
    if (fstatat(parent, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT || Stay(path, std::strerror(errno));
    }
    if (!S_ISDIR(facts.st_mode)) {
      if (unlinkat(parent, name.c_str(), 0) != 0 && errno != ENOENT) return Stay(path, std::strerror(errno));
      ++result.entries;
      return true;
    }
    if (facts.st_dev != device_) return Stay(path, "another file system is mounted there");
    UniqueFd child(openat(parent, name.c_str(), kOpenDirectory));
    if (!child) return Stay(path, std::strerror(errno));
    if (!Empty(child.get(), path, depth + 1)) return false;
    if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      return Stay(path, std::strerror(errno));
    ++result.entries;
    return true;
  }
  bool Stay(const std::string& path, const std::string& why) {
    if (result.left.empty()) result.left = path + ": " + why;
    return false;
  }

  dev_t device_;
  const std::function<void()>& breathe_;
  uint64_t looked_ = 0;
};

}  // namespace

Fault SplitRelative(const std::string& path, std::vector<std::string>* parts) {
  parts->clear();
  std::string part;
  for (size_t i = 0; i <= path.size(); ++i) {
    if (i < path.size() && path[i] != '/') {
      if (path[i] == '\0') return Fault("bad_path", "a path holds a NUL byte");
      part += path[i];
      continue;
    }
    bool trailing = i == path.size() && part.empty() && !parts->empty();
    if (trailing) break;
    if (part.empty() || part == "." || part == "..") {
      return Fault("bad_path", "path '" + path + "' must be relative, without empty parts, '.' and '..'");
    }
    parts->push_back(std::move(part));
    part.clear();
  }
  return {};
}

Fault MissingParts(const std::string& base, const std::string& path, std::vector<std::string>* missing) {
  std::vector<std::string> parts;
  Fault fault = SplitRelative(path, &parts);
  if (!fault.ok()) return fault;
  UniqueFd fd(open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return Fault::Errno("open base directory '" + base + "'");
  std::string here = base;
  for (const std::string& part : parts) {
    here += "/" + part;
    if (missing->empty()) {
      UniqueFd next(openat(fd.get(), part.c_str(), kOpenDirectory));
      if (next) {
        fd = std::move(next);
        continue;
      }
      if (errno != ENOENT) return Fault::Errno("open directory '" + here + "'");
    }
    missing->push_back(here);
  }
  return {};
}

Fault MakeDirectory(const std::string& base, const std::string& absolute, mode_t mode,
                    std::optional<uid_t> uid, std::optional<gid_t> gid, MadeDirectory* made) {
  UniqueFd parent;
  std::string name;
  Fault fault = OpenParent(base, absolute, &parent, &name);
  if (!fault.ok()) return fault;
  if (mkdirat(parent.get(), name.c_str(), 0700) != 0) {
    if (errno == EEXIST) return Fault("exists", "directory '" + absolute + "' exists already");
    return Fault::Errno("mkdir '" + absolute + "'");
  }
  UniqueFd fd(openat(parent.get(), name.c_str(), kOpenDirectory));
  struct stat facts;
  if (!fd || fstat(fd.get(), &facts) != 0) return Fault::Errno("open '" + absolute + "'");
  if ((uid || gid) && fchown(fd.get(), uid.value_or(-1), gid.value_or(-1)) != 0) {
    return Fault::Errno("chown '" + absolute + "'");
  }
  if (fchmod(fd.get(), mode) != 0) return Fault::Errno("chmod '" + absolute + "'");
  made->device = facts.st_dev;
  made->inode = facts.st_ino;
  return {};
}

RemovedTree RemoveDirectory(const std::string& path, std::optional<MadeDirectory> identity,
                            const std::function<void()>& breathe) {
  RemovedTree nothing;
  UniqueFd fd(open(path.c_str(), kOpenDirectory));
  if (!fd) {
    if (errno != ENOENT) nothing.left = path + ": " + std::strerror(errno);
    return nothing;
  }
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0) {
    nothing.left = path + ": " + std::strerror(errno);
    return nothing;
  }
  if (identity && (facts.st_dev != identity->device || facts.st_ino != identity->inode)) {
    nothing.left = path + ": is not the directory that was made (another one took its place)";
    return nothing;
  }
  Remover remover(facts.st_dev, breathe);
  if (identity && !remover.Empty(fd.get(), path, 0)) return remover.result;
  if (rmdir(path.c_str()) != 0 && errno != ENOENT) {
    remover.result.left = path + ": " + std::strerror(errno);
  } else {
    ++remover.result.entries;
  }
  return remover.result;
}

}  // namespace poolmark::guard
