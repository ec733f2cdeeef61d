// From a job to the plan of its load process: levels, arrivals, users of an agentic start.
#include "controller/steps/load_plan.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/load/plan.h"
#include "common/spec/read.h"
#include "common/workload/source.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::controller;

namespace {

const char kStack[] = R"(version: 1
strategy: local
engine: sim
params: {model: sim}
processes:
  - {name: engine, role: engine, on: each, exec: poolmark-sim, argv: [engine], ports: [http]}
entry: engine.http
)";

Result<spec::JobSpec> JobOf(const std::string& workload, Errors* errors, const std::string& rest = "") {
  const std::string job =
      "version: 1\npool: pool.yaml\nstacks: [{use: stack.yaml, as: s}]\nworkloads:\n  w: " + workload + "\n" +
      rest;
  auto files = [](const std::string& name) -> Result<std::string> {
    if (name == "pool.yaml") return std::string("version: 1\nmachines: [{name: n0}]\n");
    if (name == "stack.yaml") return std::string(kStack);
    return std::string("{}");
  };
  return spec::ReadJob(job, "job.yaml", files, {}, errors);
}

std::string ErrorsOf(const std::string& workload, const std::string& rest = "") {
  Errors errors;
  (void)JobOf(workload, &errors, rest);
  std::string text;
  for (const Error& error : errors) text += std::string(ToStatus(error).message()) + "\n";
  return text;
}

// What the load process reads for level `index` of the job's only workload.
struct Loaded {
  std::string level_name, text;
  load::Plan plan;
};
Loaded LoadOf(const std::string& workload, size_t index = 0, const std::string& file = "",
              const std::string& rest = "") {
  Errors errors;
  auto job = JobOf(workload, &errors, rest);
  INFO(ErrorsOf(workload, rest));
  REQUIRE(job.ok());
  const spec::LoadLevel level = job->workloads[0].levels.at(index);
  StackPlan stack;
  stack.entry_url = "http://127.0.0.1:1";
  LoadPlanInput input;
  input.stack = &stack;
  input.workload = &job->workloads[0];
  input.repeat = {"w", level, 1};
  input.model = "m";
  input.file = file;
  input.output_dir = "/o";
  input.marker = "j/1";
  input.tokenizer = job->load.tokenizer;
  input.tokenize_url = "http://127.0.0.1:2";
  input.seed = job->seed;
  const auto text = LoadPlanJson(input);
  INFO(text.status());
  REQUIRE(text.ok());
  auto plan = load::ParsePlan(*ParseJson(*text));
  INFO(plan.status() << *text);
  REQUIRE(plan.ok());
  return {level.Name(), DescribeLevel(job->workloads[0], level), *std::move(plan)};
}

constexpr char kSynthetic[] = "shape: synthetic, input: 20, output: 8";

}  // namespace

TEST_CASE("a job's rates arrive as it says: Poisson unless told, constant, gamma, steps and ramps", "[C22]") {
  using Kind = load::ArrivalOptions::Kind;
  const std::string head = std::string("{") + kSynthetic;
  const Loaded plain = LoadOf(head + ", rate: [5]}");
  CHECK(plain.plan.options.mode == load::LoadOptions::Mode::kRate);
  CHECK(plain.plan.options.arrivals.kind == Kind::kPoisson);
  CHECK(plain.plan.options.arrivals.seed == 42);
  CHECK(plain.plan.options.arrivals.steps[0].from == 5);
  CHECK(plain.level_name == "r5");
  CHECK(plain.text == "Poisson arrivals, 5 requests/s");

  const Loaded constant = LoadOf(head + ", rate: [0.5], arrivals: constant}");
  CHECK(constant.plan.options.arrivals.kind == Kind::kConstant);
  CHECK(constant.text == "arrivals in equal gaps, 0.5 requests/s");

  const Loaded gamma = LoadOf(head + ", rate: [5], arrivals: gamma, cv: 0.25}");
  CHECK(gamma.plan.options.arrivals.kind == Kind::kGamma);
  CHECK(gamma.plan.options.arrivals.cv == 0.25);
  CHECK(gamma.text == "gamma arrivals (cv 0.25), 5 requests/s");

  const std::string ramped = head + ", rate: [2, '10-100:60s', '10:1m,100:30s,2.5'], arrivals: constant}";
  const Loaded ramp = LoadOf(ramped, 1);
  CHECK(ramp.level_name == "r10-100_60s");
  CHECK(ramp.text == "arrivals in equal gaps, 10 to 100 requests/s within 1m");
  REQUIRE(ramp.plan.options.arrivals.steps.size() == 1);
  CHECK(ramp.plan.options.arrivals.steps[0].to == 100);
  CHECK(ramp.plan.options.arrivals.steps[0].duration == std::chrono::minutes(1));
  const Loaded steps = LoadOf(ramped, 2);
  CHECK(steps.level_name == "r10_1m_100_30s_2.5");
  CHECK(steps.plan.options.arrivals.steps.size() == 3);
  // Names of files and processes stay short.
  const Loaded many = LoadOf(head + ", rate: '1:1s,2:1s,3:1s,4:1s,5:1s,6:1s'}");
  CHECK(many.level_name.size() <= 16);
  CHECK(many.level_name.rfind("rsteps-", 0) == 0);
}

TEST_CASE("prompts of text are counted by the engine, or by the tokenizer that the job names", "[M23]") {
  const std::string head = std::string("{") + kSynthetic + ", concurrency: [4]";
  const std::string file = "load: {tokenizer: /models/m/tokenizer.json}\n";
  for (const char* text : {", api: chat}", ", prompt: text}", ", answers: live}"}) {
    CAPTURE(text);
    const load::Plan asked = LoadOf(head + text).plan;
    CHECK(asked.tokenize_url == "http://127.0.0.1:2");
    CHECK(asked.tokenizer.empty());
    const load::Plan read = LoadOf(head + text, 0, "", file).plan;
    CHECK(read.tokenize_url.empty());
    CHECK(read.tokenizer == "/models/m/tokenizer.json");
  }
  // Token ids need nobody to count them.
  CHECK(LoadOf(head + "}").plan.tokenize_url.empty());
  CHECK_THAT(ErrorsOf(head + "}", file),
             Catch::Contains("job.yaml:6:19 load.tokenizer: counts prompts of text"));
  CHECK_THAT(ErrorsOf(head + ", api: chat}", "load: {tokenizer: models/m}\n"),
             Catch::Contains("'models/m' is no absolute path"));
  CHECK_THAT(ErrorsOf(head + ", api: chat}", "load: {tokenizer: [a]}\n"), Catch::Contains("load.tokenizer"));
}

TEST_CASE("a load.json of another schema_version is refused by name") {
  Json load = {{"schema_version", 1},
               {"started_wall_ns", 5},
               {"window_ns", {{"start", 1}, {"end", 2}, {"load_end", 3}, {"total_end", 4}}},
               {"interrupted", false},
               {"client", {{"ran_out_of_sessions_at_s", nullptr}, {"limited", true}}},
               {"notes", {"n"}}};
  const auto times = ParseLoadJson(load.dump());
  INFO(times.status());
  REQUIRE(times.ok());
  CHECK(times->window_end == Nanoseconds(2));
  CHECK(times->client_limited);
  load["schema_version"] = 2;
  const auto other = ParseLoadJson(load.dump());
  REQUIRE_FALSE(other.ok());
  CHECK(other.status().message().find("its schema_version is 2, and this program reads 1") !=
        std::string::npos);
  load.erase("schema_version");
  CHECK_FALSE(ParseLoadJson(load.dump()).ok());
  CHECK_FALSE(ParseLoadJson("[]").ok());
}

TEST_CASE("arrivals that mean nothing are refused with the reason", "[C22]") {
  const std::string head = std::string("{") + kSynthetic;
  CHECK(ErrorsOf(head + ", rate: [5]}").empty());
  for (const auto& [rest, expected] : std::vector<std::pair<std::string, std::string>>{
           {", concurrency: [4], arrivals: constant}", "belongs to a rate"},
           {", rate: [5], arrivals: gamma}", "coefficient of variation"},
           {", rate: [5], cv: 2}", "belongs to arrivals: gamma"},
           {", rate: [5], arrivals: gamma, cv: 0}", "from 0.01 to 100"},
           {", rate: [5], arrivals: uniform}", "must be one of constant, poisson, gamma"},
           {", rate: ['10-100']}", "no duration"},
           {", rate: ['fast']}", "no rate"},
           {", rate: [0]}", "must be a number from 1e-6"},
           {", rate: [['5']]}", "must be a number or a text"},
           {", rate: ['10:60s', '10:60s']}", "twice"},
       }) {
    INFO(rest << ": " << ErrorsOf(head + rest));
    CHECK(ErrorsOf(head + rest).find(expected) != std::string::npos);
  }
}

TEST_CASE("the users of the load's own level begin where `start` says", "[D1]") {
  const test::TempDir dir;
  std::string sessions;
  for (int s = 0; s < 12; ++s) {
    Json requests = Json::array();
    for (int r = 0; r < 8; ++r) {
      Json blocks = Json::array();
      for (int b = 0; b <= r; ++b) blocks.push_back(b);
      requests.push_back({{"t", r},
                          {"type", "n"},
                          {"in", 64 * (r + 1)},
                          {"out", 8},
                          {"hash_ids", blocks},
                          {"api_time", 0.1}});
    }
    const Json session = {{"id", "s" + std::to_string(s)},
                          {"block_size", 64},
                          {"hash_id_scope", "local"},
                          {"requests", requests}};
    sessions += *DumpJson(session) + "\n";
  }
  REQUIRE(AtomicWriteFile(dir / "sessions.jsonl", sessions).ok());
  const auto primers = [](const load::Plan& plan) {
    auto source = workload::OpenSource(*ParseJson(plan.workload_json));
    INFO(source.status() << plan.workload_json);
    REQUIRE(source.ok());
    std::vector<uint64_t> with;
    for (uint64_t s = 0; s < 12; ++s) {
      if ((*source)->Open(s)->turn(0).primer) with.push_back(s);
    }
    return with;
  };
  const std::string workload =
      "{shape: agentic, file: sessions.jsonl, start: [0.25, 0.75], concurrency: [4, 2, 9], load_duration: "
      "2m, "
      "warm_up: 10s}";
  CHECK(primers(LoadOf(workload, 0, dir / "sessions.jsonl").plan) == std::vector<uint64_t>{0, 1, 2, 3});
  CHECK(primers(LoadOf(workload, 1, dir / "sessions.jsonl").plan) == std::vector<uint64_t>{0, 1});
  CHECK(primers(LoadOf(workload, 2, dir / "sessions.jsonl").plan).size() == 9);
  // A plan file with the workload as a job has it: its own level counts, whatever the workload's lists say.
  const auto plan = [&](const Json& load, const Json& concurrency) {
    Json spec = {{"shape", "agentic"}, {"file", dir / "sessions.jsonl"}, {"start", {0.25, 0.75}}};
    if (!concurrency.is_null()) spec["concurrency"] = concurrency;
    return load::ParsePlan(
        {{"schema_version", 1}, {"urls", {"http://h:1"}}, {"workload", spec}, {"load", load}, {"out", "/o"}});
  };
  CHECK(primers(*plan({{"concurrency", 4}}, nullptr)).size() == 4);
  CHECK(primers(*plan({{"concurrency", 3}}, {8, 16})).size() == 3);
  const auto no_users = plan({{"rate", 4}}, 8);
  REQUIRE_FALSE(no_users.ok());
  CHECK(std::string(no_users.status().message()).find("plan.workload.start") != std::string::npos);
}
