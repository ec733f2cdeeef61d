// The program `poolmark` against a controller over TLS: what it prints, what it sends, how it exits.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/component/cli/fake_controller.h"

namespace poolmark::test {
namespace {

using namespace std::chrono_literals;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool Eventually(const std::function<bool()>& condition) {
  auto end = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

const char kJob[] =
    "version: 1\npool: pool.yaml\nstacks: [{use: sim-local, as: base}]\nworkloads: {w: {shape: trace, file: "
    "data/t.jsonl, format: mooncake, speedup: [1]}}\n";

std::string WriteJob(const TempDir& dir) {
  REQUIRE(MakeDirs(dir / "data").ok());
  REQUIRE(AtomicWriteFile(dir / "job.yaml", kJob).ok());
  REQUIRE(AtomicWriteFile(dir / "pool.yaml", "version: 1\nhead: n0\nmachines: [{name: n0}]\n").ok());
  REQUIRE(AtomicWriteFile(dir / "data/t.jsonl", std::string(600'000, 'x')).ok());
  return dir / "job.yaml";
}

}  // namespace

TEST_CASE("login with a token, then ask", "[L3][live]") {
  CliFixture fixture;
  Outcome before = fixture.Cli({"jobs"});
  CHECK(before.code == 1);
  CHECK(Contains(before.err, "poolmark login TOKEN"));
  std::string token = fixture.Token("olga", rpc::Role::kOperator);
  Outcome login = fixture.Cli({"login", "-"}, token + "\n");
  INFO(login.err);
  CHECK(login.code == 0);
  CHECK(Contains(login.out, "as olga (operator), context lab"));
  CHECK_FALSE(Contains(login.out + login.err, token));
  CHECK(fixture.Cli({"login", token}).code == 8);  // used
  CHECK(fixture.Cli({"login", "pmk1-nonsense"}).code == 2);
  Outcome version = fixture.Cli({"version", "-o", "json"});
  CHECK(version.code == 0);
  auto json = ParseJson(version.out);
  REQUIRE(json.ok());
  CHECK((*json)["controller"]["version"] == "9.9.9");
  CHECK((*json)["controller"]["as"] == "olga");
  Outcome doctor = fixture.Cli({"doctor"});
  INFO(doctor.out);
  CHECK(doctor.code == 0);
  Outcome list = fixture.Cli({"context", "list"});
  CHECK(Contains(list.out, "operator"));
  CHECK(fixture.Cli({"context", "forget", "lab"}).code == 0);
  CHECK(fixture.Cli({"jobs"}).code == 1);
}

TEST_CASE("a controller that is not there, a role that may not, an unknown job", "[L3]") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kViewer);
  TempDir dir;
  Outcome denied = fixture.Cli({"submit", WriteJob(dir)});
  CHECK(denied.code == 8);
  CHECK(Contains(denied.err, "automation, operator, admin"));
  Outcome unknown = fixture.Cli({"status", "zzz", "-o", "json"});
  CHECK(unknown.code == 1);
  auto json = ParseJson(unknown.err);
  REQUIRE(json.ok());
  CHECK((*json)["errors"][0]["code"] == "not_found");
  CHECK((*json)["errors"][0]["hint"] == "poolmark jobs");
  Outcome away = fixture.Cli({"jobs", "--controller", "127.0.0.1:1"});
  CHECK(away.code == 1);
  CHECK(Contains(away.err, "controller 127.0.0.1:1"));
  CHECK(fixture.Cli({"jobs", "--context", "none"}).code == 1);
  CHECK(fixture.Cli({"jobs", "-o", "xml"}).code == 2);
  CHECK(fixture.Cli({}).code == 2);
  CHECK(fixture.Cli({"--help"}).code == 0);
}

TEST_CASE("lists: tables for people, pages joined, control characters made visible") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kViewer);
  Outcome jobs = fixture.Cli({"jobs", "-o", "jsonl", "--limit", "70"});
  CHECK(jobs.code == 0);
  CHECK(std::count(jobs.out.begin(), jobs.out.end(), '\n') == 70);
  CHECK(Contains(jobs.out, "\"j-69\""));
  CHECK(fixture.Cli({"jobs", "--state", "sleeping"}).code == 2);
  Outcome machines = fixture.Cli({"nodes"});
  CHECK(Contains(machines.out, "READY"));
  CHECK(Contains(machines.out, "+1.50 ms"));
  CHECK(Contains(machines.out, "8 × H200"));
  CHECK_FALSE(Contains(machines.out, "chrony"));
  const std::string facts = fixture.Cli({"machines", "--facts"}).out;
  CHECK(Contains(facts, "192"));
  CHECK(Contains(facts, "chrony ±0.25 ms"));
  CHECK(Contains(machines.out, "UNKNOWN"));  // fails safe
  CHECK(Contains(machines.out, "not measured"));
  CHECK(Contains(machines.out, "\\x1b[2J"));
  CHECK_FALSE(Contains(machines.out, "\x1b"));
  CHECK_FALSE(Contains(machines.out, "gone"));  // its certificate was withdrawn
  CHECK(Contains(fixture.Cli({"machines", "--all"}).out, "REVOKED"));
  Outcome json = fixture.Cli({"machines", "-o", "json"});
  REQUIRE(ParseJson(json.out).ok());
  CHECK((*ParseJson(json.out))[1]["clock_offset_seconds"].is_null());
  CHECK((*ParseJson(json.out))[0]["facts"].is_null());  // not asked for
  const auto whole = ParseJson(fixture.Cli({"machines", "--facts", "-o", "json"}).out);
  REQUIRE(whole.ok());
  CHECK((*whole)[0]["facts"]["clock"]["bound_seconds"] == 0.00025);
  CHECK(fixture.Cli({"machine", "drain", "n0"}).code == 8);
}

TEST_CASE("submit sends every file once and the overrides with it", "[L3][live]") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kAutomation);
  TempDir dir;
  std::string job = WriteJob(dir);
  Outcome first = fixture.Cli({"submit", job, "--set", "base.model=x=y", "--set", "host=1GiB", "--label",
                               "team=kv", "--no-continue", "--request-id", "r1"});
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(first.out == "j-7f3a\n");
  CHECK(Contains(first.err, "note: one run"));
  REQUIRE(fixture.service.submitted.size() == 1);
  const auto& request = fixture.service.submitted[0];
  CHECK(request.job_path() == "job.yaml");
  CHECK(request.request_id() == "r1");
  CHECK(request.set().at("base.model") == "x=y");
  CHECK(request.set().at("host") == "1GiB");
  CHECK(request.no_continue());
  REQUIRE(request.inputs_size() == 3);
  CHECK(request.inputs(2).path() == "data/t.jsonl");
  CHECK(request.inputs(2).size() == 600'000);
  for (const auto& input : request.inputs()) CHECK(fixture.service.uploads.count(input.sha256()) == 1);
  int bytes = fixture.service.upload_bytes_received;
  CHECK(fixture.Cli({"submit", job, "-o", "json"}).code == 0);
  CHECK(fixture.service.upload_bytes_received == bytes);  // nothing sent twice
  REQUIRE(RemoveTree(dir / "data").ok());
  Outcome missing = fixture.Cli({"submit", job});
  CHECK(missing.code == 2);
  CHECK(Contains(missing.err, "data/t.jsonl"));
  CHECK(fixture.Cli({"submit"}).code == 2);
  CHECK(fixture.Cli({"submit", job, "--set", "novalue"}).code == 2);
}

TEST_CASE("an input that is a link is sent as what it leads to", "[L3][live]") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kAutomation);
  TempDir dir;
  const std::string job = WriteJob(dir);
  REQUIRE(RenameDurably(dir / "data/t.jsonl", dir / "blob").ok());
  REQUIRE(symlink("../blob", (dir / "data/t.jsonl").c_str()) == 0);
  Outcome submit = fixture.Cli({"submit", job});
  INFO(submit.err);
  REQUIRE(submit.code == 0);
  const auto& input = fixture.service.submitted.at(0).inputs(2);
  CHECK(input.path() == "data/t.jsonl");
  CHECK(input.sha256() == Sha256Hex(std::string(600'000, 'x')));
  CHECK(fixture.service.uploads.count(input.sha256()) == 1);
}

TEST_CASE("a refused job shows every error; a dry run submits nothing") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kOperator);
  TempDir dir;
  std::string job = WriteJob(dir);
  Outcome plan = fixture.Cli({"submit", job, "--dry-run"});
  CHECK(plan.code == 0);
  CHECK(Contains(plan.out, "engine-n0 on n0, port 8000"));
  CHECK(Contains(plan.out, "estimated time 1m30s"));
  fixture.service.refusals = {
      {absl::StatusCode::kInvalidArgument, "gpus", "job.yaml:3", "asks for 8 GPUs, n0 has 4", "lower it"},
      {absl::StatusCode::kInvalidArgument, "rdma", "stack", "n0 has no RDMA port", "use path tcp"}};
  for (const char* flag : {"--dry-run", "--no-continue"}) {
    Outcome refused = fixture.Cli({"submit", job, flag});
    CHECK(refused.code == 2);
    CHECK(Contains(refused.err, "asks for 8 GPUs"));
    CHECK(Contains(refused.err, "use path tcp"));
  }
  CHECK(fixture.service.submitted.empty());
}

TEST_CASE("wait and watch end with the job's code, over a lost connection", "[L3][live]") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kViewer);
  fixture.Event(1, v1::JOB_STATE_QUEUED, "in");
  fixture.Event(2, v1::JOB_STATE_PREFLIGHT, "checks");
  fixture.Event(3, v1::JOB_STATE_SUCCEEDED, "done");
  struct Row {
    v1::JobState state;
    v1::TeardownVerdict teardown;
    int code;
  };
  for (const Row& row : {Row{v1::JOB_STATE_SUCCEEDED, v1::TEARDOWN_VERDICT_CLEAN, 0},
                         Row{v1::JOB_STATE_FAILED, v1::TEARDOWN_VERDICT_CLEAN, 3},
                         Row{v1::JOB_STATE_INVALID, v1::TEARDOWN_VERDICT_CLEAN, 4},
                         Row{v1::JOB_STATE_CANCELLED, v1::TEARDOWN_VERDICT_NONE, 5},
                         Row{v1::JOB_STATE_REFUSED, v1::TEARDOWN_VERDICT_NONE, 2},
                         Row{v1::JOB_STATE_SUCCEEDED, v1::TEARDOWN_VERDICT_DIRTY, 6},
                         Row{v1::JOB_STATE_FAILED, v1::TEARDOWN_VERDICT_UNKNOWN, 6}}) {
    fixture.service.job.set_state(row.state);
    fixture.service.job.set_teardown(row.teardown);
    CHECK(fixture.Cli({"wait", "j-7f"}).code == row.code);
  }
  fixture.service.job.set_state(v1::JOB_STATE_SUCCEEDED);
  fixture.service.job.set_teardown(v1::TEARDOWN_VERDICT_CLEAN);
  fixture.service.break_watch_after = 2;
  Outcome watch = fixture.Cli({"watch", "j-7f3a"});
  CHECK(watch.code == 0);
  CHECK(Contains(watch.err, "trying again"));
  for (const char* text : {"QUEUED in", "PREFLIGHT checks", "SUCCEEDED done"}) {
    CHECK(watch.out.find(text) == watch.out.rfind(text));  // once each
    CHECK(Contains(watch.out, text));
  }
  Outcome events = fixture.Cli({"events", "j-7f3a", "--after", "1", "-o", "json"});
  CHECK(ParseJson(events.out)->size() == 2);
}

TEST_CASE("Ctrl-C detaches with 130, a time limit with 7; the job is left alone", "[L3][live]") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kOperator);
  fixture.service.ended = false;
  fixture.service.job.set_state(v1::JOB_STATE_BENCHMARKING);
  fixture.Event(1, v1::JOB_STATE_BENCHMARKING, "load");
  {
    Program watch("poolmark", {"watch", "j-7f3a"}, fixture.Environment());
    REQUIRE(Eventually([&] { return Contains(watch.Out(), "load"); }));
    watch.Signal(SIGINT);
    Outcome outcome = watch.Wait();
    CHECK(outcome.code == 130);
    CHECK(Contains(outcome.err, "poolmark cancel j-7f3a"));
  }
  CHECK(fixture.Cli({"wait", "j-7f3a", "--timeout", "200ms"}).code == 7);
  CHECK(fixture.service.cancels.empty());
  CHECK(fixture.Cli({"cancel", "j-7f3a", "--force"}).code == 0);
  REQUIRE(fixture.service.cancels.size() == 1);
  CHECK(fixture.service.cancels[0].force());
}

TEST_CASE("cat: records a line each or as one array, of files alone") {
  CliFixture fixture;
  TempDir dir;
  const std::string records = dir / "r.jsonl", torn = dir / "torn.jsonl";
  const std::string empty = dir / "empty.jsonl", pipe = dir / "pipe";
  REQUIRE(AtomicWriteFile(records, "{\"a\":1.50}\n{\"a\":2}\n").ok());
  REQUIRE(AtomicWriteFile(torn, "{\"a\":3}\nnothing\n").ok());
  REQUIRE(AtomicWriteFile(empty, "").ok());
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(fixture.Cli({"cat", records, records}).out == "{\"a\":1.50}\n{\"a\":2}\n{\"a\":1.50}\n{\"a\":2}\n");
  CHECK(fixture.Cli({"cat", "-o", "jsonl", torn}).out == "{\"a\":3}\nnothing\n");
  CHECK(fixture.Cli({"cat", "-o", "json", records, empty, records}).out ==
        "[\n{\"a\":1.50},\n{\"a\":2},\n{\"a\":1.50},\n{\"a\":2}\n]\n");
  CHECK(fixture.Cli({"cat", "-o", "json", empty}).out == "[]\n");
  Outcome wrong = fixture.Cli({"cat", "-o", "json", torn});
  CHECK(wrong.code == 2);
  CHECK((*ParseJson(wrong.err))["errors"][0]["where"] == torn + ":2");
  Outcome waits = fixture.Cli({"cat", pipe});
  CHECK(waits.code == 2);
  CHECK(waits.err.starts_with("poolmark: " + pipe + ": is no regular file"));
}

TEST_CASE("logs: whole lines, nothing that drives the terminal") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kViewer);
  Outcome logs = fixture.Cli({"logs", "j-7f3a"});
  CHECK(logs.code == 0);
  CHECK(Contains(logs.out, "n0 engine-n0  one\n"));
  CHECK(Contains(logs.out, "two\\x1b[31m\n"));
  // A stream that breaks in the middle of a line goes on there.
  const auto again = [&](v1::JobState state) {
    std::lock_guard lock(fixture.service.mutex);
    fixture.service.job.set_state(state);
    fixture.service.break_logs_after = 3;
  };
  again(v1::JOB_STATE_BENCHMARKING);
  Outcome followed = fixture.Cli({"logs", "j-7f3a", "-f"});
  CHECK(followed.code == 0);
  CHECK(followed.out == logs.out);
  CHECK(Contains(followed.err, "the controller is away (broken by the test); trying again"));
  again(v1::JOB_STATE_FAILED);
  Outcome late = fixture.Cli({"logs", "j-7f3a", "-f"});
  CHECK(late.code == 0);
  CHECK(Contains(late.err, "has ended meanwhile; all that its processes printed: poolmark logs j-7f3a"));
  again(v1::JOB_STATE_BENCHMARKING);
  CHECK(fixture.Cli({"logs", "j-7f3a"}).code == 1);  // it does not follow
  Outcome json = fixture.Cli({"logs", "j-7f3a", "-o", "jsonl"});
  CHECK(std::count(json.out.begin(), json.out.end(), '\n') == 2);
}

TEST_CASE("fetch is whole and verified, or not there at all", "[L3][live]") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kViewer);
  TempDir dir;
  std::string target = dir / "results";
  fixture.service.files = {{"job.json", "{}"},
                           {"points/a/b-c16/repeat_1/requests.jsonl.zst", std::string(500'000, 'r')},
                           {"empty", ""}};
  SECTION("whole") {
    Outcome fetch = fixture.Cli({"fetch", "j-7f3a", target});
    INFO(fetch.err);
    REQUIRE(fetch.code == 0);
    CHECK(ReadFile(target + "/points/a/b-c16/repeat_1/requests.jsonl.zst")->size() == 500'000);
    CHECK(ListTree(target)->size() == 3);
    CHECK_FALSE(FileExists(target + ".partial"));
    CHECK(fixture.Cli({"fetch", "j-7f3a", target}).code == 2);  // it exists
  }
  SECTION("over a connection that breaks") {
    fixture.service.break_fetch_after = 3;
    CHECK(fixture.Cli({"fetch", "j-7f3a", target}).code == 0);
    CHECK(ReadFile(target + "/points/a/b-c16/repeat_1/requests.jsonl.zst")->size() == 500'000);
  }
  SECTION("resumed") {
    std::string part = target + ".partial/points/a/b-c16/repeat_1";
    REQUIRE(MakeDirs(part).ok());
    REQUIRE(AtomicWriteFile(part + "/requests.jsonl.zst.tmp", std::string(123'457, 'r')).ok());
    CHECK(fixture.Cli({"fetch", "j-7f3a", target}).code == 2);
    CHECK(fixture.Cli({"fetch", "j-7f3a", target, "--resume"}).code == 0);
    CHECK(ReadFile(target + "/points/a/b-c16/repeat_1/requests.jsonl.zst")->size() == 500'000);
  }
  SECTION("a link in the place of a file is no file of it") {
    REQUIRE(MakeDirs(target + ".partial").ok());
    REQUIRE(AtomicWriteFile(dir / "elsewhere", "{}").ok());
    REQUIRE(symlink((dir / "elsewhere").c_str(), (target + ".partial/job.json").c_str()) == 0);
    CHECK(fixture.Cli({"fetch", "j-7f3a", target, "--resume"}).code == 0);
    CHECK(ListTree(target)->size() == 3);  // links are not counted
    CHECK(ReadFile(dir / "elsewhere").value() == "{}");
  }
  SECTION("damaged on the way") {
    fixture.service.corrupt = true;
    Outcome fetch = fixture.Cli({"fetch", "j-7f3a", target});
    CHECK(fetch.code == 70);
    CHECK(Contains(fetch.err, "SHA-256"));
    CHECK_FALSE(FileExists(target));
  }
  SECTION("not finished") {
    fixture.service.finished = false;
    CHECK(fixture.Cli({"fetch", "j-7f3a", target}).code == 1);
  }
  SECTION("paths that leave the directory") {
    for (const char* path : {"../evil", "/etc/evil", "a/../../evil", "a//b", "./a", "a\nb"}) {
      fixture.service.files = {{path, "x"}};
      CHECK(fixture.Cli({"fetch", "j-7f3a", dir / "bad"}).code == 70);
      REQUIRE(RemoveTree(dir / "bad.partial").ok());
    }
    CHECK(ListDir(dir.path())->empty());
  }
}

TEST_CASE("machine actions reach the controller", "[L3]") {
  CliFixture fixture;
  fixture.LogIn(rpc::Role::kOperator);
  CHECK(fixture.Cli({"machine", "drain", "n0", "--reason", "new disk"}).code == 0);
  REQUIRE(fixture.service.machine_changes.size() == 1);
  CHECK(fixture.service.machine_changes[0].action() == v1::MACHINE_ACTION_DRAIN);
  CHECK(fixture.service.machine_changes[0].reason() == "new disk");
  CHECK(fixture.Cli({"machine", "explode", "n0"}).code == 2);
}

TEST_CASE("the head's program makes a cluster that the CLI is logged in to") {
  TempDir dir;
  std::map<std::string, std::string> environment = {{"POOLMARK_CONFIG_DIR", dir / "config"}};
  std::vector<std::string> init = {"init",        "--state",         dir / "state", "--cluster",
                                   "lab",         "--admin",         "ada",         "--listen",
                                   "127.0.0.1:1", "--enroll-listen", "127.0.0.1:2"};
  Outcome made = Run("poolmark-controller", init, environment);
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(Run("poolmark-controller", init, environment).code == 1);  // never twice
  Outcome token = Run("poolmark-controller", {"token", "create", "--machine", "n0", "--state", dir / "state"},
                      environment);
  CHECK(token.code == 0);
  CHECK(token.out.rfind("pmk1-", 0) == 0);
  CHECK(Run("poolmark-controller", {"token", "create", "--machine", "N 0", "--state", dir / "state"},
            environment)
            .code == 2);
  CHECK(Run("poolmark-controller",
            {"token", "create", "--user", "x", "--role", "root", "--state", dir / "state"}, environment)
            .code == 2);
  CHECK(
      Run("poolmark-controller", {"token", "create", "--machine", "n0", "--state", dir / "none"}, environment)
          .code == 1);
  Outcome list = Run("poolmark", {"context", "list", "-o", "json"}, environment);
  REQUIRE(ParseJson(list.out).ok());
  CHECK((*ParseJson(list.out))[0]["role"] == "admin");
}

}  // namespace poolmark::test
