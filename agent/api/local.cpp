#include "agent/api/local.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "agent/guard/ledger.h"
#include "agent/guard/run.h"
#include "agent/process/guard_client.h"
#include "common/base/files.h"

namespace poolmark::agent {
namespace {

using guard::Record;

constexpr int kLeft = 6;

// What cannot be read is an error, not an empty list.
Result<std::vector<std::string>> RunDirectories(const AgentConfig& config) {
  std::vector<std::string> directories;
  POOLMARK_ASSIGN_OR_RETURN(auto state, ListDir(config.state_dir));
  if (std::find(state.begin(), state.end(), "runs") == state.end()) return directories;  // never any
  std::string root = JoinPath(config.state_dir, "runs");
  POOLMARK_ASSIGN_OR_RETURN(auto names, ListDir(root));
  for (const std::string& name : names) directories.push_back(JoinPath(root, name));
  return directories;
}

int Unreadable(const Status& status) {
  std::fprintf(stderr, "the agent's runs cannot be read: %s\n", std::string(status.message()).c_str());
  return 1;
}

std::string NameOf(const std::string& directory) {
  return directory.substr(directory.rfind('/') + 1);
}

bool DrainOne(const std::string& directory, const guard::RunState& state) {
  auto client = process::GuardClient::Connect(directory);
  auto status = client.ok() ? (*client)->Ask(Record("status")) : Result<process::GuardReply>(client.status());
  auto watch = status.ok() ? process::GuardWatch::Connect(directory, status->ok.Unsigned("last").value_or(0))
                           : Result<std::unique_ptr<process::GuardWatch>>(status.status());
  auto told = watch.ok()
                  ? (*client)->Ask(
                        Record("teardown").Add("epoch", state.epoch).Add("cause", "drained on the machine"))
                  : Result<process::GuardReply>(watch.status());
  if (!told.ok()) {
    std::fprintf(stderr, "%s: %s\n", state.run.c_str(), std::string(told.status().message()).c_str());
    return false;
  }
  while (true) {
    auto event = (*watch)->Next(std::chrono::minutes(5));
    if (!event.ok()) {
      std::fprintf(stderr, "%s: %s\n", state.run.c_str(), std::string(event.status().message()).c_str());
      return false;
    }
    if (event->Get("kind") == "item") {
      std::printf("%s: %s %s: %s %s %s\n", state.run.c_str(), event->Get("item").c_str(),
                  event->Get("name").c_str(), event->Get("state").c_str(), event->Get("proof").c_str(),
                  event->Get("detail").c_str());
    }
    if (event->Get("kind") == "torn_down") return event->Get("clean") == "1";
  }
}

}  // namespace

int PrintStatus(const AgentConfig& config) {
  int code = 0;
  auto directories = RunDirectories(config);
  if (!directories.ok()) return Unreadable(directories.status());
  for (const std::string& directory : *directories) {
    std::string ledger = directory + "/ledger";
    guard::LedgerContent content = guard::ReadLedger(ledger);
    guard::RunState state = guard::Fold(content.records);
    bool alive = guard::LedgerIsLocked(ledger);
    std::string verdict = alive             ? "running"
                          : !state.finished ? "its guard died; not swept yet"
                          : state.clean     ? "torn down, clean"
                                            : "torn down, NOT clean";
    std::printf("%s  job %s  epoch %llu  %s  open items %u%s%s\n", NameOf(directory).c_str(),
                state.job.c_str(), static_cast<unsigned long long>(state.epoch), verdict.c_str(),
                state.open_items(), state.cause.empty() ? "" : "  cause: ", state.cause.c_str());
    for (const std::string& damage : content.damages) std::printf("  %s\n", damage.c_str());
    for (const auto& [number, item] : state.items) {
      if (!item.owed()) continue;
      std::printf("  %s %s%s%s\n", item.kind.c_str(), item.name.c_str(), item.detail.empty() ? "" : ": ",
                  item.detail.c_str());
    }
    if (!alive && (!state.finished || !state.clean || !content.damages.empty())) code = kLeft;
    auto client = alive ? process::GuardClient::Connect(directory)
                        : Result<std::unique_ptr<process::GuardClient>>(Unavailable("", ""));
    if (!client.ok()) continue;
    auto status = (*client)->Ask(Record("status"));
    if (!status.ok()) continue;
    for (const Record& process : status->data) {
      std::printf("  %s  pid %s  %s\n", process.Get("id").c_str(), process.Get("pid").c_str(),
                  process.Get("state").c_str());
    }
    auto left = status->ok.Signed("deadline").value_or(0) - RealClock().Boot().count();
    std::printf("  lease ends in %lld s\n", static_cast<long long>(left / 1'000'000'000));
  }
  return code;
}

int Drain(const AgentConfig& config) {
  bool clean = true;
  auto directories = RunDirectories(config);
  if (!directories.ok()) return Unreadable(directories.status());
  for (const std::string& directory : *directories) {
    std::string ledger = directory + "/ledger";
    if (!guard::LedgerIsLocked(ledger)) {
      const guard::LedgerContent content = guard::ReadLedger(ledger);
      const guard::RunState state = guard::Fold(content.records);
      if (state.finished && state.clean && content.damages.empty()) continue;
      std::fprintf(
          stderr, "%s: %s, %u open items: %s\n", NameOf(directory).c_str(),
          state.finished ? "torn down, NOT clean" : "its guard died and nobody swept after it",
          state.open_items(),
          state.finished ? "see `poolmark-agent status`" : "start the agent, which sends a new guard");
      clean = false;
      continue;
    }
    clean = DrainOne(directory, guard::Fold(guard::ReadLedger(ledger).records)) && clean;
  }
  std::printf(clean ? "drained: nothing of any run is left\n" : "something was left: see above\n");
  return clean ? 0 : kLeft;
}

}  // namespace poolmark::agent
