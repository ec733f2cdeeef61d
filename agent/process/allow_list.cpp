#include "agent/process/allow_list.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/process/allow_reader.h"
#include "common/base/digest.h"
#include "common/base/files.h"

namespace poolmark::process {
namespace {

bool IsBelow(const std::string& path, const std::string& place) {
  return path == place || (path.size() > place.size() && path.compare(0, place.size() + 1, place + "/") == 0);
}

// Where the administrator probably has it, for the line to add.
std::string Guess(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (const auto& part : absl::StrSplit(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", ':')) {
    std::string candidate = absl::StrCat(part, "/", name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "/path/to/" + name;
}

AllowedExecutable ReadExecutable(AllowReader* reader, const std::string& name, const YAML::Node& node) {
  AllowedExecutable executable{name, "", "", ""};
  if (node.IsScalar()) {
    executable.path = reader->Path(node, "executable " + name);
    return executable;
  }
  if (!node.IsMap() || !node["path"]) {
    reader->Fail(node, "executable " + name + " must be a path or {path: …, sha256: …, version: …}");
    return executable;
  }
  for (const auto& field : node) {
    std::string key = field.first.Scalar();
    if (key == "path") {
      executable.path = reader->Path(field.second, "executable " + name);
    } else if (key == "sha256") {
      executable.sha256 = reader->Text(field.second, "sha256 of " + name);
      bool hex = executable.sha256.size() == 64 &&
                 executable.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
      if (!hex) reader->Fail(field.second, "sha256 of " + name + " must be 64 lowercase hex digits");
    } else if (key == "version") {
      executable.version = reader->Text(field.second, "version of " + name);
      if (executable.version.empty() || executable.version.size() > 64)
        reader->Fail(field.second, "version of " + name + " must have 1 to 64 characters");
    } else {
      reader->Fail(field.first, "unknown key '" + key + "'", "known: path, sha256, version");
    }
  }
  return executable;
}

// Whether the engines' user could exchange what lies in this directory.
bool CanExchange(const struct stat& facts, std::optional<unsigned> uid, std::optional<unsigned> gid) {
  if (uid && *uid != geteuid() && facts.st_uid == *uid) return true;
  if ((facts.st_mode & S_ISVTX) != 0) return false;  // entries of others stay, and those of the user are seen
  if ((facts.st_mode & S_IWOTH) != 0) return true;
  return uid && *uid != geteuid() && gid && facts.st_gid == *gid && (facts.st_mode & S_IWGRP) != 0;
}

// Goes from / down to `real` (a path without links) and says what is wrong with the way.
Status CheckWay(const std::string& source, const std::string& real, std::optional<unsigned> uid,
                std::optional<unsigned> gid) {
  int here = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  std::string path;
  Status status = absl::OkStatus();
  for (const auto& part : absl::StrSplit(real.substr(1), '/', absl::SkipEmpty())) {
    struct stat facts;
    if (here < 0 || fstat(here, &facts) != 0) {
      status = FromErrno(source, "look at the way to the mount", errno);
      break;
    }
    if (!S_ISDIR(facts.st_mode)) {
      status = NotFound(source, absl::StrCat("'", path, "' is no directory"));
      break;
    }
    if (CanExchange(facts, uid, gid)) {
      status =
          NotAllowed(source,
                     absl::StrCat("mount '", source, "': engines can write in '", path.empty() ? "/" : path,
                                  "', so that a link could take the place of '", part, "'"),
                     "mount that directory whole, or give it to another user");
      break;
    }
    absl::StrAppend(&path, "/", part);
    int next = openat(here, std::string(part).c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    const int why = errno;
    close(here);
    here = next;
    if (next < 0) {
      status = why == ENOENT ? NotFound(source, absl::StrCat("there is no '", path, "' on this machine"),
                                        "make it, or correct the stack's 'mounts:'")
                             : FromErrno(source, "look at the way to the mount", why);
      break;
    }
    if (fstat(next, &facts) == 0 && S_ISLNK(facts.st_mode)) {
      status = NotAllowed(source, absl::StrCat("mount '", source, "' goes through the link '", path, "'"),
                          "name what the link points to");
      break;
    }
  }
  if (here >= 0) close(here);
  return status;
}

Result<std::string> ResolveMount(const std::string& place, const std::string& source,
                                 std::optional<unsigned> uid, std::optional<unsigned> gid) {
  // Links up to the place itself are the administrator's.
  std::unique_ptr<char, void (*)(void*)> real(realpath(place.c_str(), nullptr), std::free);
  if (real == nullptr) {
    return NotFound(source, absl::StrCat("there is no '", place, "' on this machine"),
                    "make it, or correct 'mounts:'");
  }
  const std::string resolved = absl::StrCat(real.get(), source.substr(place.size()));
  POOLMARK_RETURN_IF_ERROR(CheckWay(source, resolved, uid, gid));
  return resolved;
}

}  // namespace

Status CheckTrustedFile(const std::string& path) {
  struct stat facts;
  if (lstat(path.c_str(), &facts) != 0) return FromErrno(path, "look at the file", errno);
  if (!S_ISREG(facts.st_mode))
    return Precondition(path, "is no regular file", "replace links by the file itself");
  if (facts.st_uid != 0 && facts.st_uid != geteuid()) {
    return Precondition(path, absl::StrCat("belongs to user ", facts.st_uid), "chown root it");
  }
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Precondition(
        path,
        absl::StrCat("can be written by others than its owner (mode 0", (facts.st_mode >> 6) & 7,
                     (facts.st_mode >> 3) & 7, facts.st_mode & 7, ")"),
        "chmod go-w it");
  }
  return absl::OkStatus();
}

Result<AllowList> AllowList::Load(const std::string& path) {
  if (!FileExists(path)) {
    AllowList none;
    none.where_ = path;
    none.grants_ = Grants(path);
    return none;
  }
  POOLMARK_RETURN_IF_ERROR(CheckTrustedFile(path));
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 4u << 20));
  return Parse(text, path);
}

Result<AllowList> AllowList::Parse(std::string_view yaml, const std::string& where) {
  AllowList list;
  list.where_ = where;
  list.grants_ = Grants(where);
  AllowReader reader(where);
  try {
    YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsNull()) return list;
    if (!root.IsMap()) return InvalidInput(where, "must be a mapping", "begin with 'version: 1'");
    YAML::Node secrets;  // last: they name programs
    for (const auto& entry : root) {
      std::string key = entry.first.Scalar();
      const YAML::Node& value = entry.second;
      if (key == "version") {
        if (value.Scalar() != "1")
          reader.Fail(value, "version '" + value.Scalar() + "' is not known", "write 'version: 1'");
      } else if (key == "executables" && value.IsMap()) {
        for (const auto& one : value) {
          std::string name = one.first.Scalar();
          list.executables_[name] = ReadExecutable(&reader, name, one.second);
        }
      } else if (key == "images" && value.IsSequence()) {
        for (const YAML::Node& one : value) {
          std::string image = reader.Text(one, "image");
          if (image.find("@sha256:") == std::string::npos) {
            reader.Fail(one, "image '" + image + "' has no digest", "write name@sha256:…");
          }
          list.images_.insert(image);
        }
      } else if (key == "containers" && value.IsMap()) {
        for (const auto& one : value) {
          std::string name = one.first.Scalar();
          if (name != "docker" && name != "podman")
            reader.Fail(one.first, "unknown container tool '" + name + "'");
          list.tools_[name] = reader.Path(one.second, name);
        }
      } else if (key == "mounts") {
        list.mounts_ = reader.Paths(value, "mounts");
      } else if (key == "ports" && value.IsSequence()) {
        for (const YAML::Node& one : value) {
          int port = one.as<int>(0);
          if (port < 1 || port > 65535) reader.Fail(one, "'" + one.Scalar() + "' is no TCP port");
          list.ports_.insert(static_cast<uint16_t>(port));
        }
      } else if (key == "devices") {
        list.devices_ = reader.Paths(value, "devices");
      } else if (key == "secrets" && value.IsMap()) {
        secrets = value;
      } else if (key == "bmc" && value.IsSequence()) {
        list.grants_.ReadBmcs(value, &reader);
      } else {
        reader.Fail(entry.first, "unknown key or wrong type: '" + key + "'",
                    "known: version, executables, images, containers, mounts, devices, ports, secrets, bmc");
      }
    }
    if (secrets.IsMap()) {
      list.grants_.ReadSecrets(secrets, &reader, [&](const std::string& program) {
        return list.executables_.count(program) != 0 || list.images_.count(program) != 0;
      });
    }
  } catch (const YAML::Exception& error) {
    return InvalidInput(absl::StrCat(where, ":", error.mark.line + 1, ":", error.mark.column + 1), error.msg);
  }
  if (!reader.errors.empty()) return ToStatus(reader.errors);
  return list;
}

Result<AllowedExecutable> AllowList::Executable(const std::string& name_or_path) const {
  const AllowedExecutable* found = nullptr;
  if (auto by_name = executables_.find(name_or_path); by_name != executables_.end()) found = &by_name->second;
  for (const auto& [name, executable] : executables_) {
    if (found == nullptr && executable.path == name_or_path) found = &executable;
  }
  if (found == nullptr) {
    std::string path = Guess(name_or_path);
    std::string name = name_or_path.substr(name_or_path.rfind('/') + 1);
    return NotAllowed(where_, absl::StrCat("executable '", name_or_path, "' is not allowed on this machine"),
                      absl::StrCat("add below 'executables:' the line \"  ", name, ": ", path, "\""));
  }
  if (access(found->path.c_str(), X_OK) != 0) {
    return Precondition(where_,
                        absl::StrCat("executable ", found->name, ": '", found->path, "' cannot be executed"),
                        "install it or correct the path");
  }
  if (!found->sha256.empty()) {
    std::unique_ptr<char, void (*)(void*)> real(realpath(found->path.c_str(), nullptr), std::free);
    POOLMARK_ASSIGN_OR_RETURN(std::string digest, Sha256OfFile(real != nullptr ? real.get() : found->path));
    if (digest != found->sha256) {
      return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "digest", found->path,
                            absl::StrCat("has SHA-256 ", digest, ", allowed is ", found->sha256),
                            absl::StrCat("if the change is wanted, correct ", where_)});
    }
  }
  return *found;
}

Status AllowList::Image(const std::string& image) const {
  if (image.find("@sha256:") == std::string::npos) {
    return NotAllowed(where_, absl::StrCat("image '", image, "' has no digest"), "name it as name@sha256:…");
  }
  if (images_.count(image) != 0) return absl::OkStatus();
  return NotAllowed(where_, absl::StrCat("image '", image, "' is not allowed on this machine"),
                    absl::StrCat("add below 'images:' the line \"  - ", image, "\""));
}

Result<std::string> AllowList::ContainerTool(const std::string& name) const {
  auto found = tools_.find(name);
  if (found != tools_.end()) return found->second;
  return NotAllowed(where_, absl::StrCat("container tool '", name, "' is not allowed on this machine"),
                    absl::StrCat("add below 'containers:' the line \"  ", name, ": ", Guess(name), "\""));
}

Result<std::string> AllowList::Mount(const std::string& source, std::optional<unsigned> uid,
                                     std::optional<unsigned> gid) const {
  if (!IsPlainAbsolute(source)) {
    return NotAllowed(where_, absl::StrCat("mount '", source, "' is no plain absolute path"), "");
  }
  const std::string* best = nullptr;
  for (const std::string& place : mounts_) {
    if (IsBelow(source, place) && (best == nullptr || place.size() > best->size())) best = &place;
  }
  if (best == nullptr) {
    return NotAllowed(where_, absl::StrCat("mounting '", source, "' is not allowed on this machine"),
                      absl::StrCat("add below 'mounts:' the line \"  - ", source, "\""));
  }
  return ResolveMount(*best, source, uid, gid);
}

Status AllowList::Device(const std::string& device) const {
  std::string path = device.substr(0, device.find(':'));
  if (IsPlainAbsolute(path)) {
    for (const std::string& place : devices_) {
      if (IsBelow(path, place)) return absl::OkStatus();
    }
  }
  return NotAllowed(where_, absl::StrCat("device '", device, "' is not allowed on this machine"),
                    absl::StrCat("add below 'devices:' the line \"  - ", path, "\""));
}

Status AllowList::Secret(const std::string& secret, const std::string& executable,
                         const std::string& image) const {
  if (!image.empty()) return grants_.Secret(secret, {image});
  // By name or by path: whichever the job writes, it is the same program.
  std::vector<std::string> names = {executable};
  std::string path = executable;
  if (auto named = executables_.find(executable); named != executables_.end()) path = named->second.path;
  for (const auto& [name, allowed] : executables_) {
    if (name != executable && allowed.path == path) names.push_back(name);
  }
  return grants_.Secret(secret, names);
}

bool AllowList::IsOurs(const std::string& executable) const {
  auto ours = executables_.find("poolmark");
  return ours != executables_.end() && (executable == "poolmark" || executable == ours->second.path);
}

std::map<std::string, std::vector<std::string>> AllowList::secrets() const {
  std::map<std::string, std::vector<std::string>> secrets;
  for (const auto& [secret, programs] : grants_.secrets()) {
    std::vector<std::string>& names = secrets[secret];
    for (const std::string& program : programs) {
      names.push_back(program);
      if (auto named = executables_.find(program); named != executables_.end())
        names.push_back(named->second.path);
    }
  }
  return secrets;
}

std::vector<std::string> AllowList::names() const {
  std::vector<std::string> names;
  for (const auto& [name, executable] : executables_) names.push_back(name);
  return names;
}

}  // namespace poolmark::process
