#include "agent/process/launch.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/variables.h"

namespace poolmark::process {
namespace {

constexpr char kPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Status CheckVariable(const std::string& name, const std::string& process) {
  if (!IsVariable(name)) return InvalidInput(process, absl::StrCat("'", name, "' is no name of a variable"));
  if (ChangesProgram(name)) {
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "not_allowed", process,
                          absl::StrCat("variable ", name, " cannot be set by a job"), "remove it"});
  }
  return absl::OkStatus();
}

Status CheckWords(const LaunchSpec& spec) {
  for (const std::string& word : spec.argv) {
    if (word.find('\0') != std::string::npos) return InvalidInput(spec.id, "an argument holds a NUL byte");
  }
  for (const auto& [name, value] : spec.env) {
    POOLMARK_RETURN_IF_ERROR(CheckVariable(name, spec.id));
    if (value.find('\0') != std::string::npos)
      return InvalidInput(spec.id, absl::StrCat("variable ", name, " holds a NUL byte"));
  }
  for (const auto& [name, secret] : spec.secrets) {
    POOLMARK_RETURN_IF_ERROR(CheckVariable(name, spec.id));
    if (spec.env.count(name) != 0)
      return InvalidInput(spec.id, absl::StrCat("variable ", name, " is in env and in secrets"));
  }
  return absl::OkStatus();
}

bool IsForRedaction(const std::string& variable) {
  return variable.starts_with(kRedactVariable);
}

// What both kinds have: environment, secrets, ports, place.
Status AddCommon(const LaunchSpec& spec, const LaunchPlace& place, const AllowList& allow,
                 const Secrets& secrets, guard::Record* record) {
  std::map<std::string, std::string> env = {
      {"PATH", kPath},
      {"HOME", place.work_dir},
      {"LANG", "C.UTF-8"},
      {"TMPDIR", place.temp_dir},
      // A job's files must not become code of an allowed Python program.
      {"PYTHONNOUSERSITE", "1"},
      {"PYTHONSAFEPATH", "1"}};
  for (const auto& [name, value] : spec.env) env[name] = value;
  for (const auto& [name, value] : env) record->Add("env", absl::StrCat(name, "=", value));
  // Only our own program takes others' secrets out of what it writes, and needs their values for that.
  const bool redacts = HasProgress(spec.role) && spec.image.empty() && allow.IsOurs(spec.executable);
  for (const auto& [name, secret] : spec.secrets) {
    if (!IsForRedaction(name)) POOLMARK_RETURN_IF_ERROR(allow.Secret(secret, spec.executable, spec.image));
    auto value = secrets.Get(secret);
    if (IsForRedaction(name)) {
      if (!value.ok()) continue;  // this machine cannot repeat it
      if (!redacts) {
        record->Add("redact", *value);
        continue;
      }
    }
    POOLMARK_RETURN_IF_ERROR(value.status());
    record->Add("secret", absl::StrCat(name, "=", *value));
  }
  for (uint32_t port : spec.ports) record->Add("port", port);
  record->Add("cwd", place.work_dir);
  if (HasProgress(spec.role)) record->Add("split", 1);
  return absl::OkStatus();
}

class ProcessBackend final : public Backend {
 public:
  Result<guard::Record> Compose(const LaunchSpec& spec, const LaunchPlace& place, const AllowList& allow,
                                const Secrets& secrets) const override {
    POOLMARK_RETURN_IF_ERROR(CheckWords(spec));
    if (!spec.image.empty())
      return InvalidInput(spec.id, "a plain process has no image", "set the backend to docker or podman");
    POOLMARK_ASSIGN_OR_RETURN(AllowedExecutable executable, allow.Executable(spec.executable));
    guard::Record record("start");
    record.Add("id", spec.id).Add("exe", executable.path);
    for (const std::string& word : spec.argv) record.Add("argv", word);
    POOLMARK_RETURN_IF_ERROR(AddCommon(spec, place, allow, secrets, &record));
    if (place.uid) record.Add("uid", *place.uid);
    if (place.gid) record.Add("gid", *place.gid);
    return record;
  }
};

class ContainerBackend final : public Backend {
 public:
  explicit ContainerBackend(std::string tool) : tool_(std::move(tool)) {}

  Result<guard::Record> Compose(const LaunchSpec& planned, const LaunchPlace& place, const AllowList& allow,
                                const Secrets& secrets) const override {
    const LaunchSpec spec = SeenInside(planned);
    POOLMARK_RETURN_IF_ERROR(CheckWords(spec));
    POOLMARK_RETURN_IF_ERROR(allow.Image(spec.image));
    POOLMARK_ASSIGN_OR_RETURN(std::string tool, allow.ContainerTool(tool_));
    std::string name = absl::StrCat("poolmark-", place.run, "-", spec.id, "-", place.serial);
    std::vector<std::string> argv = {"run", "--name", name};
    auto add = [&argv](std::initializer_list<std::string> words) { argv.insert(argv.end(), words); };
    add({"--label", "poolmark.run=" + place.run, "--label", "poolmark.job=" + place.job});
    // No new privileges and none to begin with; the network is the machine's, for line-rate KV traffic.
    add({"--restart", "no", "--network", "host", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
         "--shm-size", "16g", "--log-driver", "none", "--workdir", place.work_dir});
    add({"--volume", place.work_dir + ":" + place.work_dir});
    if (place.uid) add({"--user", absl::StrCat(*place.uid, ":", place.gid.value_or(*place.uid))});
    POOLMARK_RETURN_IF_ERROR(AddMounts(spec, place, allow, &argv));
    POOLMARK_RETURN_IF_ERROR(AddDevices(spec, allow, &argv));
    // Names only: the values are in the client's environment, so none is in a process list.
    for (const auto& [variable, value] : spec.env) {
      if (absl::StartsWith(variable, "DOCKER_") || absl::StartsWith(variable, "CONTAINER_")) {
        return InvalidInput(spec.id, absl::StrCat("variable ", variable, " would steer the container client"),
                            "remove it");
      }
      if (variable != "PATH" && variable != "HOME") add({"--env", variable});
    }
    for (const auto& [variable, secret] : spec.secrets) {
      if (!IsForRedaction(variable)) add({"--env", variable});
    }
    for (const char* variable : {"TMPDIR", "POOLMARK_RUN", "POOLMARK_PROCESS"}) {
      if (spec.env.count(variable) == 0) add({"--env", variable});
    }
    if (!spec.executable.empty()) add({"--entrypoint", spec.executable});
    argv.push_back(spec.image);
    argv.insert(argv.end(), spec.argv.begin(), spec.argv.end());

    guard::Record record("start");
    record.Add("id", spec.id).Add("exe", tool).Add("container", name).Add("tool", tool);
    for (const std::string& word : argv) record.Add("argv", word);
    POOLMARK_RETURN_IF_ERROR(AddCommon(spec, place, allow, secrets, &record));
    return record;
  }

 private:
  // A container that is given NVIDIA GPUs 2 and 3 has two, and CUDA calls them 0 and 1. With AMD it has the
  // whole of /dev/dri, and the machine's numbers hold.
  static LaunchSpec SeenInside(LaunchSpec spec) {
    auto visible = spec.env.find("CUDA_VISIBLE_DEVICES");
    if (visible == spec.env.end() || spec.gpus.empty() || spec.gpu_vendor == "amd") return spec;
    visible->second.clear();
    for (size_t i = 0; i < spec.gpus.size(); ++i) absl::StrAppend(&visible->second, i == 0 ? "" : ",", i);
    return spec;
  }

  static Status AddMounts(const LaunchSpec& spec, const LaunchPlace& place, const AllowList& allow,
                          std::vector<std::string>* argv) {
    for (const std::string& mount : spec.mounts) {
      POOLMARK_ASSIGN_OR_RETURN(std::string checked, CheckedMount(mount, place, allow));
      argv->insert(argv->end(), {"--volume", std::move(checked)});
    }
    return absl::OkStatus();
  }

  Status AddDevices(const LaunchSpec& spec, const AllowList& allow, std::vector<std::string>* argv) const {
    bool rdma = false;
    for (const std::string& device : spec.devices) {
      POOLMARK_RETURN_IF_ERROR(allow.Device(device));
      argv->insert(argv->end(), {"--device", device});
      rdma = rdma || absl::StartsWith(device, "/dev/infiniband");
    }
    // Registering memory with a network card means locking it.
    if (rdma) argv->insert(argv->end(), {"--cap-add", "IPC_LOCK", "--ulimit", "memlock=-1:-1"});
    if (spec.gpus.empty()) return absl::OkStatus();
    if (spec.gpu_vendor == "amd") {
      for (const char* device : {"/dev/kfd", "/dev/dri"}) {
        POOLMARK_RETURN_IF_ERROR(allow.Device(device));
        argv->insert(argv->end(), {"--device", device});
      }
    } else if (tool_ == "podman") {
      for (uint32_t gpu : spec.gpus)
        argv->insert(argv->end(), {"--device", absl::StrCat("nvidia.com/gpu=", gpu)});
    } else {
      argv->insert(argv->end(), {"--gpus", absl::StrCat("\"device=", absl::StrJoin(spec.gpus, ","), "\"")});
    }
    return absl::OkStatus();
  }

  std::string tool_;
};

}  // namespace

Result<std::string> CheckedMount(const std::string& mount, const LaunchPlace& place, const AllowList& allow) {
  std::vector<std::string> parts = absl::StrSplit(mount, ':');
  const bool form = (parts.size() == 2 || (parts.size() == 3 && (parts[2] == "ro" || parts[2] == "rw"))) &&
                    absl::StartsWith(parts[1], "/");
  if (!form)
    return InvalidInput("mounts", absl::StrCat("mount '", mount, "'"),
                        "write source:target or source:target:ro");
  // The work directory lies where only the agent can exchange it. Below it engines could put a link to
  // anywhere in the place of what the container client then mounts, as root and after our look.
  if (parts[0] != place.work_dir) {
    if (absl::StartsWith(parts[0], place.work_dir + "/")) {
      return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "not_allowed", "mounts",
                            absl::StrCat("mount '", mount, "' is of a part of the work directory"),
                            absl::StrCat("the container has the whole of it already, at ", place.work_dir,
                                         ": name the file there")});
    }
    POOLMARK_ASSIGN_OR_RETURN(parts[0], allow.Mount(parts[0], place.uid, place.gid));
  }
  return absl::StrJoin(parts, ":");
}

bool HasProgress(const std::string& role) {
  return role == "load" || role == "quality";
}

std::unique_ptr<Backend> MakeBackend(BackendKind kind) {
  if (kind == BackendKind::kProcess) return std::make_unique<ProcessBackend>();
  return std::make_unique<ContainerBackend>(kind == BackendKind::kDocker ? "docker" : "podman");
}

}  // namespace poolmark::process
