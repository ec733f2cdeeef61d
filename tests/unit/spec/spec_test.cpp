// Jobs and pools: what is read, and what is refused at its place.
#include <catch2/catch.hpp>

#include "common/spec/read.h"
#include "tests/unit/spec/spec_files.h"

using namespace poolmark;
using namespace poolmark::spec;
using namespace poolmark::test;

TEST_CASE("a job with its pool and stack is read", "[A7][E13]") {
  Errors errors;
  auto job = Read(kJob, &errors);
  INFO(Texts(errors));
  REQUIRE(job.ok());
  CHECK(job->pool.head == "n0");
  CHECK(job->stacks[0].name == "base");
  CHECK(job->stacks[0].simulated);
  CHECK(job->baseline == "base");  // M26: the one with strategy local
  REQUIRE(job->workloads[0].levels.size() == 2);
  CHECK(job->workloads[0].levels[1].Name() == "c4");
  CHECK(*FilesOf(kJob, "job.yaml") == std::vector<std::string>{"pool.yaml", "stack.yaml"});
}

TEST_CASE("the accuracy run of a job is read with its defaults, and refused where it cannot be", "[K30]") {
  Errors errors;
  auto job = Read(std::string(kJob) + "accuracy: {dataset: hotpotqa}\n", &errors);
  INFO(Texts(errors));
  REQUIRE(job.ok());
  CHECK(job->accuracy->metric == "match");
  CHECK(job->accuracy->limit == 200);
  CHECK(job->accuracy->reference_repeats == 2);
  CHECK(*FilesOf(std::string(kJob) + "accuracy: {dataset: hotpotqa}\n", "job.yaml") ==
        std::vector<std::string>{"pool.yaml", "stack.yaml", "hotpotqa"});
  job = Read(std::string(kJob) +
                 "accuracy: {dataset: q.jsonl, metric: judge, judge: {url: 'http://j:1', model: m, "
                 "key_file: judge.key}, reference: base}\n",
             &errors);
  REQUIRE(job.ok());
  CHECK(job->accuracy->judge_model == "m");
  CHECK(job->accuracy->judge_key == "judge.key");

  const std::pair<const char*, const char*> bad[] = {
      {"{dataset: d, metric: judge}", "needs a judge"},
      {"{dataset: d, judge: {url: u, model: m}}", "is for the metric judge"},
      {"{dataset: d, metric: judge, judge: {url: u}}", "model"},
      {"{dataset: d, metric: judge, judge: {url: u, model: m, key: k}}", "key"},
      {"{metric: match}", "dataset"},
      {"{dataset: ''}", "is empty"},
      {"{dataset: d, metric: exact}", "metric"},
      {"{dataset: d, tolerance: 1.5}", "0 to 1"},
      {"{dataset: d, limit: -1}", "limit"},
      {"{dataset: d, reference_repeats: 0}", "reference_repeats"},
      {"{dataset: d, reference: other}", "none of the job's stacks"},
      {"{dataset: d, tolerence: 0.1}", "tolerance"},
  };
  for (const auto& [yaml, word] : bad) {
    errors.clear();
    CHECK_FALSE(Read(std::string(kJob) + "accuracy: " + yaml + "\n", &errors).ok());
    INFO(yaml << "\n" << Texts(errors));
    CHECK(Texts(errors).find(word) != std::string::npos);
  }
}

TEST_CASE("addresses of a pool file are addresses, or errors with line and column") {
  auto read = [](const std::string& machine, const std::string& rest = "") {
    Errors errors;
    (void)ReadPool("version: 1\nmachines:\n  - {name: n0, " + machine + "}\n" + rest, "pool.yaml", &errors);
    return Texts(errors);
  };
  for (const char* good : {"10.0.0.1", "127.0.0.1", "fd00::1", "\"::1\"", "::ffff:10.0.0.1"}) {
    CAPTURE(good);
    CHECK(read("net: {tcp: " + std::string(good) + "}") == "");
  }
  for (const char* bad : {"300.0.0.1", "\"a b; rm\"", "gpu1.lan", "10.0.0", "10.0.0.1:80", "\"[fd00::1]\"",
                          "fd00::1::2", "fe80::1%eth0", "\" 10.0.0.1\"", "\"10.0.0.1\\n\"", "010.0.0.1"}) {
    CAPTURE(bad);
    const std::string text = read("net: {tcp: " + std::string(bad) + "}");
    CHECK(text.find("pool.yaml:3:27 machines[0].net.tcp: '") == 0);
    CHECK(text.find("is no IPv4 or IPv6 address: give the machine's address") != std::string::npos);
  }
  // What lies outside the pool may have a name and a port.
  for (const char* good : {"10.9.0.1", "\"10.9.0.1:8443\"", "bmc-n0.lan", "\"bmc:443\"", "fd00::9",
                           "\"[fd00::9]:443\"", "\"\""}) {
    CAPTURE(good);
    const bool inside = std::string(good) == "\"\"";  // the BMC of the machine itself
    CHECK(read(std::string("bmc: {kind: ") + (inside ? "ipmitool" : "redfish") + ", address: " + good +
               ", login: b}") == "");
    CHECK(read("gpus: 0", "switches: [{name: leaf1, address: " + std::string(good) + "}]\n") == "");
  }
  for (const char* bad : {"300.0.0.1", "\"a b; rm\"", "\"host:0\"", "\"host:70000\"", "\"host:\"", "-x.lan",
                          "a..b", "\"user@host\"", "host/path", "\"[10.0.0.1]:80\""}) {
    CAPTURE(bad);
    CHECK(read("bmc: {kind: redfish, address: " + std::string(bad) + ", login: b}")
              .find("pool.yaml:3:46 machines[0].bmc.address: '") == 0);
    CHECK(read("gpus: 0", "switches: [{name: leaf1, address: " + std::string(bad) + "}]\n")
              .find("pool.yaml:4:35 switches[0].address: '") == 0);
  }
}

TEST_CASE("a BMC of a pool file has an address to ask and the name of a login") {
  auto read = [](const std::string& bmc) {
    Errors errors;
    (void)ReadPool("version: 1\nmachines:\n  - {name: n0, bmc: {" + bmc + "}}\n", "pool.yaml", &errors);
    return Texts(errors);
  };
  CHECK(read("kind: redfish, address: \"\", login: b").find("Redfish needs the BMC's address") !=
        std::string::npos);
  for (const char* bad : {"root:calvin", "../hf", "a@b", "\"\""}) {
    CAPTURE(bad);
    CHECK(
        read("kind: redfish, address: 10.9.0.1, login: " + std::string(bad)).find("is no name of a secret") !=
        std::string::npos);
  }
}

TEST_CASE("all errors of all files come at once, with line, column and what to do") {
  Errors errors;
  auto job = Read(R"(version: 2
pool: pool.yaml
stacks: [{use: stack.yaml, as: base}, {use: none, as: base}]
workloads:
  code: {shape: agentic, file: sessions.jsonl, warm_up: 20m, load_duration: 30m, concurrency: [4]}
  synth: {shape: synthetic, input: 5, output: -3, load_duration: 20m, concurrency: [1]}
repeats: 0
repeets: 3
)",
                  &errors, kStack, "version: 1\nhead: n7\nmachines: [{name: n0}, {name: n0}, {name: N 1}]\n");
  REQUIRE_FALSE(job.ok());
  std::string text = Texts(errors);
  INFO(text);
  for (const char* expected :
       {"job.yaml:1:10 version: is 2", "pool.yaml:2:7 head: 'n7' is none of the machines",
        "machine 'n0' stands twice", "'N 1' is no name", "two stacks are called 'base'",
        "stack 'none' cannot be read", "job.yaml:5", "workloads.code.warm_up", "workloads.synth.output",
        "workloads.synth.load_duration", "job.yaml:7:10 repeats: is '0'", "did you mean 'repeats'?"}) {
    CAPTURE(expected);
    CHECK(text.find(expected) != std::string::npos);
  }
}

TEST_CASE("load duration and warm-up keep their ranges and belong to agentic replay alone", "[H1][H2][H11]") {
  auto with = [](const std::string& workload) {
    Errors errors;
    std::string job =
        "version: 1\npool: pool.yaml\nstacks: [{use: stack.yaml, as: base}]\nworkloads:\n  w: {" + workload +
        "}\n";
    return Read(job, &errors).ok();
  };
  CHECK(with("shape: agentic, file: sessions.jsonl, concurrency: [4]"));
  CHECK(with("shape: agentic, file: sessions.jsonl, concurrency: [4], load_duration: 120s, warm_up: 59s"));
  CHECK_FALSE(
      with("shape: agentic, file: sessions.jsonl, concurrency: [4], load_duration: 119s, warm_up: 0s"));
  CHECK_FALSE(with("shape: agentic, file: sessions.jsonl, concurrency: [4], load_duration: 14401s"));
  CHECK_FALSE(
      with("shape: agentic, file: sessions.jsonl, concurrency: [4], load_duration: 4h, warm_up: 3601s"));
  CHECK_FALSE(
      with("shape: agentic, file: sessions.jsonl, concurrency: [4], load_duration: 600s, warm_up: 300s"));
  CHECK_FALSE(with("shape: synthetic, input: 5, output: 3, concurrency: [1], warm_up: 1s"));
}

TEST_CASE("the errors of a stack file that is used twice are told once, those of each use each time") {
  Errors errors;
  std::string stack = kStack;
  stack.replace(stack.find("strategy:"), 9, "strateggy:");
  std::string job_text = kJob;
  const size_t end = job_text.find("\n", job_text.find("stacks:"));
  job_text.replace(job_text.find("stacks:"), end - job_text.find("stacks:"),
                   "stacks: [{use: stack.yaml, as: a}, {use: stack.yaml, as: B}, {use: stack.yaml, as: a}]");
  CHECK_FALSE(Read(job_text, &errors, stack).ok());
  const std::string text = Texts(errors);
  INFO(text);
  const size_t first = text.find("did you mean 'strategy'");
  REQUIRE(first != std::string::npos);
  CHECK(text.find("did you mean 'strategy'", first + 1) == std::string::npos);
  CHECK(text.find("'B' is no name for a stack") != std::string::npos);
  CHECK(text.find("two stacks are called 'a'") != std::string::npos);
}

TEST_CASE("parameters are set by the job and from outside, and unknown ones are refused") {
  Errors errors;
  auto job = Read(kJob, &errors, kStack, kPool, {{"base.host", "2GiB"}});
  REQUIRE(job.ok());
  CHECK(job->stacks[0].params.at("host") == "2GiB");
  CHECK_FALSE(Read(kJob, &errors, kStack, kPool, {{"hots", "2GiB"}}).ok());
  CHECK(Texts(errors).find("--set hots: is no parameter") != std::string::npos);
  // A value is taken as it stands, wherever it comes from.
  errors.clear();
  CHECK_FALSE(Read(kJob, &errors, kStack, kPool, {{"base.host", "${model}"}}).ok());
  CHECK(Texts(errors).find("--set base.host: '${model}' is taken as it stands") != std::string::npos);
  errors.clear();
  std::string job_text = kJob;
  job_text.replace(job_text.find("as: base"), 8, "as: base, set: {host: \"${model}\"}");
  CHECK_FALSE(Read(job_text, &errors).ok());
  CHECK(Texts(errors).find("job.yaml:3:10 stacks[0]: host: '${model}' is taken as it stands") !=
        std::string::npos);
}

TEST_CASE("files that are no YAML, binary, huge or nested without end are refused with their name") {
  for (const std::string& text :
       {std::string("{"), std::string("a: b: c"), std::string("\0\1\2", 3), std::string(2 << 20, 'x'),
        std::string(5000, '['), std::string("version: 1\n---\nversion: 1\n"),
        std::string("- just\n- a list\n"), std::string("&a [*a]"), std::string("")}) {
    Errors errors;
    CHECK_FALSE(ReadStack(text, "stack.yaml", &errors).ok());
    REQUIRE_FALSE(errors.empty());
    CHECK(errors[0].where.find("stack.yaml") == 0);
  }
}

TEST_CASE("aliases that multiply are refused before they are walked") {
  std::string bomb = "version: 1\na0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    std::string list;
    for (int j = 0; j < 9; ++j) list += (j > 0 ? ",*a" : "*a") + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + list + "]\n";
  }
  Errors errors;
  CHECK_FALSE(Read(bomb, &errors).ok());
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].message.find("more than 100000 values") != std::string::npos);
  CHECK_FALSE(FilesOf(bomb, "job.yaml").ok());
}

TEST_CASE("errors stand where they are, and one does not bring others that are none") {
  auto texts = [](const std::string& job, const std::vector<std::string>& presets = {}) {
    Errors errors;
    auto files = FilesFrom({{"pool.yaml", kPool}, {"stack.yaml", kStack}});
    (void)ReadJob(job, "job.yaml", files, {}, &errors, Names{presets, {}});
    return Texts(errors);
  };
  const std::string good = kJob;
  CHECK(texts(good + "repeats: 2\n").find("job.yaml:7:1: the key 'repeats' stands twice") !=
        std::string::npos);
  CHECK(texts(good + "# \xff\n").find("job.yaml:7: is no UTF-8 text") != std::string::npos);
  CHECK(texts("version: 1\npool: " + std::string(5000, '[')).find("nested deeper than") != std::string::npos);
  const std::string missing =
      texts(std::string(good).replace(good.find("stack.yaml"), 10, "gone.yaml ") + "baseline: base\n");
  CHECK(missing.find("gone.yaml") != std::string::npos);
  CHECK(missing.find("none of the job's stacks") == std::string::npos);
  const std::string levels = texts(std::string(good).replace(good.find("[2, 4]"), 6, "[0, 5000000, 2, 2]"));
  for (const char* text :
       {"level 0, must be a whole number from 1 to 1000000", "level 5000000", "level 2 twice"})
    CHECK(levels.find(text) != std::string::npos);
  const std::string preset = texts(good + "slo: [fast, slow]\n", {"slower", "fast"});
  CHECK(preset.find("'slow' is no preset: did you mean 'slower'?") != std::string::npos);
  CHECK(preset.find("'fast'") == std::string::npos);
}

TEST_CASE("numbers in a workload are typed as a JSON parser types them") {
  Errors errors;
  auto job = Read(
      "version: 1\npool: pool.yaml\nstacks: [{use: stack.yaml, as: base}]\nworkloads:\n"
      "  w: {shape: synthetic, input: 5, output: 3, vocabulary: [300, 2000], concurrency: [1]}\n",
      &errors);
  INFO(Texts(errors));
  CHECK(job.ok());
}
