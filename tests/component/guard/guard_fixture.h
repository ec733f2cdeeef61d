// A real guard in a temporary directory, and scripts for it to run.
#pragma once
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/guard/ledger.h"
#include "agent/process/guard_client.h"
#include "agent/process/guard_launcher.h"
#include "common/base/clock.h"
#include "tests/support/temp_dir.h"
#include "tests/support/waiting.h"

namespace poolmark::test {

using guard::Record;
using process::GuardClient;
using process::GuardReply;
using process::GuardWatch;

class GuardFixture {
 public:
  explicit GuardFixture(std::function<void(process::GuardStart*)> change = {});
  ~GuardFixture();

  GuardClient& client() { return *client_; }
  const std::string& run_dir() const { return run_dir_; }
  std::string run_name() const { return start_.run; }
  std::string work_dir() const { return dir_ / ("work/" + start_.run); }
  std::string dir(const std::string& name) const { return dir_ / name; }
  int guard_pid() const { return pid_; }

  // Runs `script` by /bin/sh as process `id`.
  Record StartShell(const std::string& id, const std::string& script,
                    std::vector<std::pair<std::string, std::string>> extra = {});
  Record StartRequest(const std::string& id, const std::string& script) const;
  GuardReply Must(const Record& request);
  Record Status(const std::string& id);
  void WaitState(const std::string& id, const std::string& state);
  std::string Log(const std::string& id, const std::string& stream = "log") const;
  // The tear-down's events: items and, last, the verdict.
  std::vector<Record> TearDown(Nanoseconds grace = std::chrono::seconds(5), bool keep = false);
  // The verdict's items of one kind.
  static std::vector<Record> Items(const std::vector<Record>& events, const std::string& kind);
  static bool Clean(const std::vector<Record>& events);
  void KillGuard();
  void Adopt();  // a new guard on the dead one's ledger
  guard::LedgerContent Ledger() const { return guard::ReadLedger(run_dir_ + "/ledger"); }

 private:
  TempDir dir_;
  std::string run_dir_;
  process::GuardStart start_;
  std::unique_ptr<GuardClient> client_;
  int pid_ = 0;
};

}  // namespace poolmark::test
