#include "agent/api/guard_spawner.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "agent/guard/log_store.h"

namespace poolmark::agent {
namespace {

using guard::Record;

constexpr Nanoseconds kKillWait = std::chrono::seconds(5);

class GuardChild final : public Child {
 public:
  GuardChild(std::shared_ptr<ActiveRun> run, std::string id, int pid, size_t max_output)
      : run_(std::move(run)), id_(std::move(id)), pid_(pid), max_output_(max_output) {}
  ~GuardChild() override {
    if (!ended_) Stop(Nanoseconds(0));
  }

  int pid() const override { return pid_; }
  bool ended() const override { return ended_; }

  const CommandOutput& Poll() override {
    if (ended_) return output_;
    auto status = run_->Ask(Record("status"), std::chrono::seconds(10));
    // The guard ended, and its children with it; so they did where one that sweeps after it knows of none.
    bool gone = true;
    for (const Record& process : status.ok() ? status->data : std::vector<Record>()) {
      if (process.Get("id") != id_) continue;
      gone = process.Get("running") != "1";
      if (!gone) break;
      if (auto code = process.Signed("code")) output_.exit_code = static_cast<int>(*code);
      if (auto signal = process.Signed("signal")) output_.exit_signal = static_cast<int>(*signal);
    }
    // After the look: what it wrote before it ended is in its logs by then.
    Read("out", &output_.out);
    Read("log", &output_.err);
    ended_ = gone;
    return output_;
  }

  bool Wait(Nanoseconds timeout) override {
    Nanoseconds end = RealClock().Steady() + timeout;
    while (!ended_) {
      Poll();
      if (ended_ || RealClock().Steady() >= end) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return ended_;
  }

  CommandOutput Stop(Nanoseconds grace) override {
    if (!ended_) {
      (void)run_->Ask(Record("stop").Add("id", id_).Add("grace_ns", grace.count()), std::chrono::seconds(10));
      Wait(grace + kKillWait);
    }
    return output_;
  }

 private:
  void Read(const char* stream, std::string* text) {
    guard::LogReader reader(absl::StrCat(run_->info().directory, "/logs/", id_, "/", stream));
    while (text->size() < max_output_) {
      guard::LogPiece piece = reader.Read(text->size(), max_output_ - text->size());
      if (piece.data.empty() || piece.lost_bytes > 0) break;
      *text += piece.data;
    }
    output_.truncated = output_.truncated || reader.End() > text->size();
  }

  std::shared_ptr<ActiveRun> run_;
  const std::string id_;
  const int pid_;
  const size_t max_output_;
  bool ended_ = false;
  CommandOutput output_;
};

}  // namespace

Result<std::unique_ptr<Child>> GuardSpawner::Start(const Command& command) {
  auto run = run_();
  if (run == nullptr) return Unavailable("tool", "no job holds this machine");
  if (command.argv.empty()) return InvalidInput("tool", "the command is empty");
  auto program = FindExecutable(command.argv[0]);
  if (!program) return NotFound(command.argv[0], "there is no such executable", "install it");
  std::string name = program->substr(program->rfind('/') + 1).substr(0, 30);
  for (char& c : name) {
    if (!std::islower(static_cast<unsigned char>(c)) && !std::isdigit(static_cast<unsigned char>(c))) c = '_';
  }
  std::string id =
      absl::StrCat(kToolPrefix, name, "-", ++number_, "-", RealClock().Steady().count() % 1'000'000);
  Record start("start");
  start.Add("id", id).Add("exe", *program).Add("split", 1).Add("cwd", "/");
  for (size_t i = 1; i < command.argv.size(); ++i) start.Add("argv", command.argv[i]);
  std::map<std::string, std::string> env = {
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"HOME", "/"},
      {"LC_ALL", "C"}};
  for (const auto& [variable, value] : command.env) env[variable] = value;
  for (const auto& [variable, value] : env) start.Add("env", absl::StrCat(variable, "=", value));
  POOLMARK_ASSIGN_OR_RETURN(auto reply, run->Ask(start));
  int pid = reply.data.empty() ? 0 : static_cast<int>(reply.data[0].Signed("pid").value_or(0));
  return std::unique_ptr<Child>(
      std::make_unique<GuardChild>(std::move(run), id, pid, command.max_output_bytes));
}

}  // namespace poolmark::agent
