#include "tests/component/guard/guard_fixture.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "agent/guard/log_store.h"
#include "agent/guard/proc.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "tests/support/shared_data.h"

namespace poolmark::test {

GuardFixture::GuardFixture(std::function<void(process::GuardStart*)> change) {
  run_dir_ = dir_ / "run";
  REQUIRE(MakeDirs(run_dir_, 0700).ok());
  REQUIRE(MakeDirs(dir_ / "work").ok());
  start_.program = BuiltProgram("poolmark-guard");
  start_.run_directory = run_dir_;
  start_.run = "t-" + RandomHex(6);
  start_.job = "job-1";
  start_.epoch = 3;
  start_.deadline = RealClock().Boot() + std::chrono::minutes(5);
  start_.work_base = dir_ / "work";
  start_.work_name = start_.run;
  start_.kill_wait = std::chrono::seconds(10);
  if (change) change(&start_);
  run_dir_ = start_.run_directory;
  auto pid = process::StartGuard(start_);
  INFO((pid.ok() ? "" : std::string(pid.status().message())));
  REQUIRE(pid.ok());
  pid_ = *pid;
  auto client = GuardClient::Connect(run_dir_);
  REQUIRE(client.ok());
  client_ = std::move(*client);
}

GuardFixture::~GuardFixture() {
  if (pid_ == 0) return;
  (void)client_->Ask(Record("teardown").Add("epoch", 1 << 20).Add("cause", "test ends").Add("grace_ns", 0));
  if (!WaitFor([this] { return waitpid(pid_, nullptr, WNOHANG) != 0; })) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

Record GuardFixture::StartRequest(const std::string& id, const std::string& script) const {
  Record request("start");
  request.Add("epoch", start_.epoch)
      .Add("id", id)
      .Add("exe", "/bin/sh")
      .Add("argv", "-c")
      .Add("argv", script);
  request.Add("env", "PATH=/usr/bin:/bin").Add("env", "WORK=" + work_dir()).Add("cwd", work_dir());
  return request;
}

Record GuardFixture::StartShell(const std::string& id, const std::string& script,
                                std::vector<std::pair<std::string, std::string>> extra) {
  Record request = StartRequest(id, script);
  for (auto& [key, value] : extra) request.Add(key, value);
  GuardReply reply = Must(request);
  REQUIRE(reply.data.size() == 1);
  return reply.data[0];
}

GuardReply GuardFixture::Must(const Record& request) {
  auto reply = client_->Ask(request);
  INFO((reply.ok() ? "" : std::string(reply.status().message())));
  REQUIRE(reply.ok());
  return std::move(*reply);
}

Record GuardFixture::Status(const std::string& id) {
  for (Record& record : Must(Record("status")).data) {
    if (record.Get("id") == id) return record;
  }
  FAIL("no process " + id);
  return {};
}

void GuardFixture::WaitState(const std::string& id, const std::string& state) {
  REQUIRE(WaitFor([&] { return Status(id).Get("state") == state; }));
}

std::string GuardFixture::Log(const std::string& id, const std::string& stream) const {
  guard::LogReader reader(run_dir_ + "/logs/" + id + "/" + stream);
  return reader.Read(0, 1u << 20).data;
}

std::vector<Record> GuardFixture::TearDown(Nanoseconds grace, bool keep) {
  // Watch first: a guard that has nothing left to do ends at once.
  auto watch = GuardWatch::Connect(run_dir_, Must(Record("status")).ok.Unsigned("last").value());
  REQUIRE(watch.ok());
  Must(Record("teardown")
           .Add("epoch", start_.epoch)
           .Add("cause", "the test ends it")
           .Add("grace_ns", grace.count())
           .Add("keep", keep ? 1 : 0));
  std::vector<Record> events;
  while (true) {
    auto event = (*watch)->Next(std::chrono::seconds(60));
    REQUIRE(event.ok());
    events.push_back(*event);
    if (event->Get("kind") == "torn_down") break;
  }
  if (!keep) {
    watch->reset();
    REQUIRE(WaitFor([this] { return waitpid(pid_, nullptr, WNOHANG) != 0; }));
    pid_ = 0;
  }
  for (const Record& event : events) UNSCOPED_INFO(guard::Encode(event));
  return events;
}

std::vector<Record> GuardFixture::Items(const std::vector<Record>& events, const std::string& kind) {
  std::vector<Record> items;
  for (const Record& event : events) {
    if (event.Get("kind") == "item" && event.Get("item") == kind) items.push_back(event);
  }
  return items;
}

bool GuardFixture::Clean(const std::vector<Record>& events) {
  return events.back().Get("clean") == "1";
}

void GuardFixture::KillGuard() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void GuardFixture::Adopt() {
  start_.adopt = true;
  auto pid = process::StartGuard(start_);
  INFO((pid.ok() ? "" : std::string(pid.status().message())));
  REQUIRE(pid.ok());
  pid_ = *pid;
  auto client = GuardClient::Connect(run_dir_);
  REQUIRE(client.ok());
  client_ = std::move(*client);
}

}  // namespace poolmark::test
