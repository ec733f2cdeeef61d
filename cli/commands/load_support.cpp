#include "cli/commands/load_support.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/stats/slo.h"

namespace poolmark::cli {
namespace {

std::atomic<int> g_stop{0};
void OnSignal(int signal) {
  g_stop = signal == SIGINT ? std::min(2, g_stop.load() + 1) : 2;
}

// Where the presets lie: said by the environment, beside an installed program, in a source tree, or of the
// system.
std::vector<std::string> PresetDirectories() {
  std::vector<std::string> directories;
  if (const char* share = std::getenv("POOLMARK_SHARE"); share != nullptr)
    directories.push_back(JoinPath(share, "slo"));
  char program[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program);
  std::string at(program, static_cast<size_t>(std::max<ssize_t>(0, n)));
  for (int i = 0; i < 4 && at.find('/') != std::string::npos; ++i) {
    at.resize(at.rfind('/'));
    directories.push_back(at + "/share/poolmark/slo");
    directories.push_back(at + "/deploy/slo");
  }
  directories.push_back("/usr/share/poolmark/slo");
  return directories;
}

}  // namespace

const std::atomic<int>& LoadStop() {
  return g_stop;
}

void CatchLoadSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that is gone ends the load as SIGTERM does, but not one that nohup keeps from it.
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  // Nobody may read the progress any more: the load goes on, and its files are written.
  signal(SIGPIPE, SIG_IGN);
  // A file that reaches its size limit is an error of the write, as on a full disk, and not the end.
  signal(SIGXFSZ, SIG_IGN);
}

int LoadFailed(const Status& status, const std::string& output) {
  if (output == "json") {
    WriteErr(ErrorText(SplitErrors(status), Format::kJson));
  } else {
    std::fprintf(stderr, "poolmark load: %s\n", Printable(std::string(status.message()), true).c_str());
  }
  const bool refused = status.code() == absl::StatusCode::kInvalidArgument ||
                       status.code() == absl::StatusCode::kFailedPrecondition;
  return refused ? 2 : 1;
}

int LoadExitCode(const load::Summary& summary) {
  if (!summary.files_error.empty()) return 1;
  if (summary.interrupted) return 130;
  return summary.ok > 0 ? 0 : 1;
}

Result<load::Slo> FindSlo(const std::string& text) {
  if (text.find('=') != std::string::npos) return load::ParseSlo(text);
  for (const std::string& directory : PresetDirectories()) {
    if (!FileExists(directory)) continue;
    POOLMARK_ASSIGN_OR_RETURN(const auto all, stats::ReadSloDirectory(directory));
    POOLMARK_ASSIGN_OR_RETURN(const auto picked, stats::PickSlos(all, {text}));
    load::Slo slo;
    slo.name = picked[0].name;
    slo.ttft = Nanoseconds(static_cast<int64_t>(picked[0].ttft_seconds * 1e9));
    slo.time_per_output_token = Nanoseconds(static_cast<int64_t>(picked[0].tpot_seconds * 1e9));
    slo.share = picked[0].share;
    return slo;
  }
  return InvalidInput("slo '" + text + "'", "no presets are installed",
                      "write the limits: ttft=2s,tpot=100ms");
}

std::function<void(const load::Tick&)> LoadProgress(const std::string& how, bool* line_open) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (how == "json") {
    return [](const load::Tick& tick) {
      if (const auto text = DumpJson(load::TickJson(tick)); text.ok())
        std::fprintf(stderr, "%s\n", text->c_str());
    };
  }
  if (how == "none" || (how.empty() && !terminal)) return nullptr;
  return [terminal, line_open](const load::Tick& tick) {
    std::fprintf(stderr, terminal ? "\r%s\x1b[K" : "%s\n", load::TickText(tick).c_str());
    *line_open = terminal;
  };
}

Result<std::string> ReadKeyFile(const std::string& path) {
  auto read = ReadFile(path, 64 * 1024);
  if (!read.ok())
    return InvalidInput(path, "the key cannot be read: " + std::string(read.status().message()),
                        "name a file whose first line is the key");
  std::string key = *std::move(read);
  key.resize(std::min(key.size(), key.find_first_of("\r\n")));
  if (key.empty()) return InvalidInput(path, "its first line is empty", "put the key there");
  // The message names no part of a key.
  if (!load::CheckHeader("Authorization", key).ok())
    return InvalidInput(path, "its first line holds a control character", "put the key alone there");
  return key;
}

}  // namespace poolmark::cli
