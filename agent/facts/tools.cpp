#include "agent/facts/tools.h"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <tuple>

#include "agent/facts/text.h"
#include "common/base/digest.h"
#include "common/base/files.h"

namespace poolmark::agent {

const std::vector<std::string>& KnownTools() {
  static const std::vector<std::string> tools = {
      "iperf3",   "ib_write_bw", "ib_write_lat",  "ibv_devinfo",   "nvidia-smi",     "amd-smi",
      "rocm-smi", "ipmitool",    "perf",          "chronyc",       "ping",           "redis-server",
      "docker",   "podman",      "node_exporter", "dcgm-exporter", "all-smi",        "smartctl_exporter",
      "smartctl", "gnmic",       "valkey-server", "llama-server",  "nvidia-imex-ctl"};
  return tools;
}

std::vector<std::string> VersionArguments(const std::string& tool) {
  if (tool == "ping" || tool == "ipmitool") return {"-V"};
  if (tool == "ibv_devinfo" || tool == "amd-smi")
    return tool == "amd-smi" ? std::vector<std::string>{"version"} : std::vector<std::string>{};
  if (tool == "nvidia-imex-ctl") return {"-V"};
  if (tool == "gnmic") return {"version"};
  return {"--version"};
}

std::string ParseToolVersion(std::string_view text) {
  // The first word that looks like a dotted number, with a leading "v" left away: "redis-server v=7.0.15",
  // "chronyc (chrony) version 4.3", "perf version 6.1.119", "Version: 6.06".
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!digit(text[i])) continue;
    if (i > 0) {
      const char before = text[i - 1];
      const bool after_v =
          (before == 'v' || before == 'V') && (i < 2 || !(text[i - 2] >= 'a' && text[i - 2] <= 'z'));
      const bool begins = before == ' ' || before == '=' || before == ':' || before == '(' ||
                          before == '\n' || before == '\t' || before == '"' || before == '-' || after_v;
      if (!begins) {
        while (i + 1 < text.size() && (digit(text[i + 1]) || text[i + 1] == '.')) ++i;
        continue;
      }
    }
    size_t end = i;
    while (end < text.size() && (digit(text[end]) || text[end] == '.' || text[end] == '-' ||
                                 text[end] == '+' || (text[end] >= 'a' && text[end] <= 'z'))) {
      ++end;
    }
    std::string word(text.substr(i, end - i));
    while (!word.empty() && (word.back() == '.' || word.back() == '-')) word.pop_back();
    // "ping from iputils 20221126": a date of eight digits is a version too
    if (word.find('.') != std::string::npos || word.size() >= 8) return word;
    i = end;
  }
  return "";
}

namespace {

// SHA-256 of an executable, computed once per (path, size, mtime).
std::string CachedDigest(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, int64_t, int64_t>, std::string> digests;  // guarded by mutex
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "";
  const auto key = std::tuple(path, static_cast<int64_t>(info.st_size), static_cast<int64_t>(info.st_mtime));
  {
    const std::lock_guard lock(mutex);
    const auto found = digests.find(key);
    if (found != digests.end()) return found->second;
  }
  const auto digest = Sha256OfFile(path);
  if (!digest.ok()) return "";
  const std::lock_guard lock(mutex);
  digests[key] = *digest;
  return *digest;
}

}  // namespace

ToolInfo LookUpTool(const std::string& name, Spawner* spawner, const std::string& root) {
  ToolInfo tool;
  tool.name = name;
  const auto path = FindExecutable(name, root);
  if (!path) {
    tool.note = "not installed";
    return tool;
  }
  tool.path = *path;
  tool.sha256 = CachedDigest(*path);
  const auto arguments = VersionArguments(name);
  if (spawner == nullptr || arguments.empty()) return tool;
  Command command;
  command.argv = {name};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.max_output_bytes = 64u << 10;
  const auto output = RunCommand(*spawner, command, std::chrono::seconds(10));
  if (!output.ok()) {
    tool.note = std::string(output.status().message());
    return tool;
  }
  if (output->timed_out) {
    tool.note = Describe(command, *output);
    return tool;
  }
  tool.version = ParseToolVersion(output->out.empty() ? output->err : output->out);
  if (tool.version.empty()) tool.note = "prints no version";
  return tool;
}

}  // namespace poolmark::agent
