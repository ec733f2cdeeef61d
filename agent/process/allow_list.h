// What this machine's administrator lets jobs start: executables by path, container images by digest, what
// may be mounted and which devices may be given. A controller can ask for nothing else; what it asks for in
// vain is refused with the line to add. The file is read again for each start, so an edit needs no restart.
// Values; thread-safe.
//
//   version: 1
//   executables:
//     redis-server: /usr/bin/redis-server
//     vllm: {path: /opt/vllm/bin/vllm, sha256: 5f…}
//     llama-server: {path: /opt/llama/llama-server, version: b6790}   # where it cannot tell its version
//     itself
//   images: [vllm/vllm-openai@sha256:9c…]
//   containers: {docker: /usr/bin/docker}
//   mounts: [/models]
//   devices: [/dev/infiniband, /dev/kfd, /dev/dri]
//   ports: [8000]                    # of engines that run already (launch: attach): may be probed
//   secrets: {hf: [vllm]}            # files of secrets_dir, and the programs or images that may have them
//   bmc:                             # logins (secrets "user:password") and the only place each may be sent
//   to
//     - {address: 10.9.0.1, kind: redfish, login: bmc}
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/process/grants.h"
#include "common/base/result.h"

namespace poolmark::process {

struct AllowedExecutable {
  std::string name;
  std::string path;     // absolute
  std::string sha256;   // empty: any content
  std::string version;  // the administrator's word; empty: the program tells
};

class AllowList {
 public:
  // Refuses a file that others than its owner (root, or the agent's user) could have written. Absent: a
  // list that allows nothing, whose refusals name the file to make.
  static Result<AllowList> Load(const std::string& path);
  // All errors at once, with line and column.
  static Result<AllowList> Parse(std::string_view yaml, const std::string& where);

  // By name or by path. FAILED_PRECONDITION (code "not_allowed") with the exact line to add; code "digest"
  // when the file is not the one that was allowed.
  Result<AllowedExecutable> Executable(const std::string& name_or_path) const;
  Status Image(const std::string& image) const;
  // The path of "docker" or "podman".
  Result<std::string> ContainerTool(const std::string& name) const;
  // What to mount for `source`, which is one of the allowed places or lies below one: its path with the links
  // of the administrator's place resolved. Below the place no link is followed, and no directory on the way
  // may be one in which the engines' user could put a link between this look and the mount (checked only for
  // a user that is not the agent's own: that one could write everything anyway). It must exist, for a
  // container client would make it.
  Result<std::string> Mount(const std::string& source, std::optional<unsigned> uid,
                            std::optional<unsigned> gid) const;
  Status Device(const std::string& device) const;
  // May this program (by name or path), or what runs in this image, have the secret?
  Status Secret(const std::string& secret, const std::string& executable, const std::string& image) const;
  Result<BmcLogin> Bmc(const std::string& kind, const std::string& address, const std::string& login) const {
    return grants_.Bmc(kind, address, login);
  }
  // Poolmark's own program, which the administrator has under that name.
  bool IsOurs(const std::string& executable) const;
  bool MayProbe(uint16_t port) const { return ports_.count(port) != 0; }
  std::vector<std::string> names() const;
  // Secret -> programs that may have it, by name and by path, and images. No values.
  std::map<std::string, std::vector<std::string>> secrets() const;
  const std::vector<BmcLogin>& bmcs() const { return grants_.bmcs(); }

 private:
  std::string where_;
  std::map<std::string, AllowedExecutable> executables_;
  std::set<std::string> images_;
  std::map<std::string, std::string> tools_;
  std::vector<std::string> mounts_;
  std::vector<std::string> devices_;
  std::set<uint16_t> ports_;
  Grants grants_{""};
};

// A file that only root (or the agent's own user) can have written: regular, not writable by group or others.
Status CheckTrustedFile(const std::string& path);

}  // namespace poolmark::process
