#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "common/spec/read.h"
#include "common/spec/versions.h"

using namespace poolmark;
using namespace poolmark::spec;

namespace {

const char* kPool = R"(version: 1
head: n0
machines:
  - {name: n0, net: {tcp: 127.0.0.1}}
  - {name: n1}
)";
const char* kStack = R"(version: 1
strategy: local
engine: sim
params: {model: sim, host: 1GiB}
processes:
  - {name: engine, role: engine, on: each, exec: poolmark-sim, argv: [engine, --port, "${port.http}"], ports: [http],
     ready: {http: /health, within: 1m}, metrics: {port: http, dialect: sim}, reset: {http: "POST /reset_prefix_cache"}, empty: canary}
  - {name: router, role: router, on: head, exec: poolmark-sim, argv: [router, {each: engine, value: "${url.http}"}], ports: [http]}
entry: router.http
)";
const char* kJob = R"(version: 1
pool: pool.yaml
stacks: [{use: stack.yaml, as: base}]
workloads:
  synth: {shape: synthetic, groups: 2, prefix: 100, sessions: 4, turns: 2, input: 20, growth: 10, output: 8, concurrency: [2, 4]}
repeats: 3
)";

Files FilesFrom(std::map<std::string, std::string> files) {
  return [files](const std::string& name) -> Result<std::string> {
    auto found = files.find(name);
    if (found == files.end()) return NotFound(name, "no such file");
    return found->second;
  };
}

Result<JobSpec> Read(const std::string& job, Errors* errors, const std::string& stack = kStack,
                     const std::string& pool = kPool, const std::map<std::string, std::string>& set = {}) {
  return ReadJob(job, "job.yaml",
                 FilesFrom({{"pool.yaml", pool}, {"stack.yaml", stack}, {"sessions.jsonl", "{}"}}), set,
                 errors);
}

std::string Texts(const Errors& errors) {
  std::string text;
  for (const Error& error : errors) text += std::string(ToStatus(error).message()) + "\n";
  return text;
}

}  // namespace

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
    CHECK(read("bmc: {kind: redfish, address: " + std::string(good) + ", login: b}") == "");
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

TEST_CASE("stacks that contradict themselves are refused", "[C5]") {
  auto refused = [](const std::string& from, const std::string& to) {
    std::string stack = kStack;
    size_t at = stack.find(from);
    REQUIRE(at != std::string::npos);
    stack.replace(at, from.size(), to);
    Errors errors;
    auto read = ReadStack(stack, "stack.yaml", &errors);
    INFO(Texts(errors));
    return !read.ok() && !errors.empty();
  };
  CHECK(refused("strategy: local", "strategy: split"));
  CHECK(refused("strategy: local", "strategy: shared"));
  CHECK(refused("strategy: local", "strategy: magic"));
  CHECK(refused("entry: router.http", "entry: router.grpc"));
  CHECK(refused("role: engine", "role: prefill"));
  CHECK(refused("exec: poolmark-sim, argv: [engine", "image: \"vllm:latest\", argv: [engine"));
  CHECK(refused("port: http, dialect", "port: prom, dialect"));
  CHECK(refused("params:", "tiers: [{source: host, size: 1GiB, owner: nobody}]\nparams:"));
  CHECK(refused("params:", "tiers: [{source: host, size: lots, owner: engine}]\nparams:"));
}

namespace {

// The errors of the usual stack with one thing changed.
std::string WrongStack(const std::string& from, const std::string& to, const Names& names = {}) {
  std::string stack = kStack;
  const size_t at = stack.find(from);
  REQUIRE(at != std::string::npos);
  stack.replace(at, from.size(), to);
  Errors errors;
  const bool read = ReadStack(stack, "s.yaml", &errors, names).ok();
  CHECK(read == errors.empty());
  for (const Error& error : errors) {
    INFO(error.where << ": " << error.message);
    CHECK(error.where.rfind("s.yaml:", 0) == 0);
  }
  return Texts(errors);
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("what an agent would refuse is an error of the stack file, with its place", "[C5]") {
  struct Case {
    std::string from, to, expected;
  };
  const std::string env = "ports: [http],\n", exec = "exec: poolmark-sim, argv: [engine";
  const std::vector<Case> cases = {
      {"empty: canary", "empty: canary, env: {\"A B\": x}", "env.A B: 'A B' is no name of a variable"},
      {"empty: canary", "empty: canary, env: {1A: x}", "'1A' is no name of a variable"},
      {"empty: canary", "empty: canary, env: {POOLMARK_RUN: y}", "POOLMARK_RUN cannot be set by a job"},
      {"empty: canary", "empty: canary, env: {LD_PRELOAD: y}", "LD_PRELOAD cannot be set by a job"},
      {"empty: canary", "empty: canary, secrets: {PATH: y}", "secrets.PATH: variable PATH cannot be set"},
      {"empty: canary", "empty: canary, env: {K: x}, secrets: {K: hf}", "is in `env` and in `secrets`"},
      {"empty: canary", "empty: canary, secrets: {K: \"hf_abc/DEF\"}", "is no name of a secret"},
      {"empty: canary", "empty: canary, files: {../../etc/passwd: x}",
       "is no path below the job's directory"},
      {"empty: canary", "empty: canary, files: {/abs: x}", "'/abs' is no path below the job's directory"},
      {"empty: canary", "empty: canary, files: {a/../../b: x}", "is no path below the job's directory"},
      {"empty: canary", "empty: canary, files: {\"\": x}", "'' is no path below the job's directory"},
      {"empty: canary", "empty: canary, devices: [infiniband]", "devices[0]: 'infiniband' is no device"},
      {"empty: canary", "empty: canary, mounts: [/a]", "mounts[0]: '/a' is no mount"},
      {"empty: canary", "empty: canary, disk: {name: kv, path: rel/x}", "'rel/x' is no absolute path"},
      {"empty: canary", "empty: canary, compatible: \"~1\"", "'~1' is no range of versions"},
      {"empty: canary", "empty: canary, compatible: \">=0.22, \"", "is no range of versions"},
      {"empty: canary", "empty: canary, kv: {colour: red}", "'colour' is no part of the KV format"},
      {"empty: canary", "empty: {http: GET /x}", "has no `expect`"},
      {"empty: canary", "empty: {redis: KEYS}", "one of DBSIZE is needed"},
      {"empty: canary", "empty: {}", "says nothing to ask"},
      {"empty: canary", "empty: canary, stop_grace: 5m", "a duration from 0s to 4m is needed"},
      {"empty: canary", "empty: canary, at: []", ""},
      {"ports: [http],\n", "ports: [http, \"x y\"],\n", "ports[1]: 'x y' is no name of a port"},
      {"ports: [http],\n", "ports: [http, http],\n", "ports[1]: names port 'http' twice"},
      {"dialect: sim", "dialect: nope", "'nope' is no dialect of the catalogue"},
      {"dialect: sim", "dialect: vlm", "did you mean 'vllm'?"},
      {"port: http, dialect: sim", "dialect: sim", "no port to read them from"},
      {"{port: http, dialect: sim}", "{port: prom, dialect: sim}", "metrics: port names port 'prom'"},
      {"{port: http, dialect: sim}", "{port: http, dialect: sim, path: m}", "'m' is no path of a URL"},
      {"http: \"POST /reset_prefix_cache\"", "http: DELETE", "reset.http: 'DELETE' is no request"},
      {"http: \"POST /reset_prefix_cache\"", "http: \"FLY /x\"", "'FLY /x' is no request"},
      {"http: \"POST /reset_prefix_cache\"", "http: \"POST /${model}\"", "is no request"},
      {"http: \"POST /reset_prefix_cache\"", "redis: \"CONFIG SET dir /\"", "one of FLUSHALL, FLUSHDB"},
      {"{http: \"POST /reset_prefix_cache\"}", "{}", "needs http or redis"},
      {"{http: /health, within: 1m}", "{http: health}", "ready.http: 'health' is no path of a URL"},
      {"{http: /health, within: 1m}", "{within: 1m}", "has 0 of http, redis and tcp"},
      {"{http: /health, within: 1m}", "{http: /health, tcp: http}", "has 2 of http, redis and tcp"},
      {"{http: /health, within: 1m}", "{redis: PONG}", "one of PING is needed"},
      {"{http: /health, within: 1m}", "{tcp: grpc}", "ready: tcp names port 'grpc', the ports are http"},
      {exec, "exec: \"sh -c 'x'\", argv: [engine", "is no name of a program"},
      {exec, "exec: ./run, argv: [engine", "is no name of a program"},
      {exec, "exec: \"\", argv: [engine", "is no name of a program"},
      {exec, "image: \"vllm:latest\", argv: [engine",
       "processes[0].image: image 'vllm:latest' is not pinned"},
      {"params:", "kv: {dtype: bf17}\nparams:", "kv.dtype: is 'bf17', one of auto, bf16"},
      {"params:", "kv: {compression: z}\nparams:", "'z' is no name of a method"},
      {"params:", "kv: {compression: None}\nparams:", "did you mean 'none'?"},
      {"params:", "kv: {compression: off}\nparams:", "did you mean 'none'?"},
      {"host: 1GiB", "host: \"${model}\"", "params.host: '${model}' is taken as it stands"},
      {"host: 1GiB", "host: 1GiB, a: \"${b}\", b: \"${a}\"", "params.b: '${a}' is taken as it stands"},
      {"host: 1GiB", "host: 1GiB, stack: x", "${stack} means something already"},
      {"host: 1GiB", "host: 1GiB, \"a.b\": x", "'a.b' is no name of a parameter"},
      {"role: engine,", "role: engine, gpus: \"${tp}\",", "processes[0].gpus: 'tp' is no parameter"},
  };
  const Names names{{}, {"sim", "vllm", "redis"}};
  for (const Case& one : cases) {
    CAPTURE(one.to);
    const std::string text = WrongStack(one.from, one.to, names);
    INFO(text);
    if (one.expected.empty()) continue;
    CHECK(text.find(one.expected) != std::string::npos);
    CHECK(Lines(text) <= 2);  // one mistake does not bring others that are none
  }
  CHECK(WrongStack("dialect: sim", "dialect: nope") == "");  // no catalogue to hold it against
  for (const char* good :
       {"empty: canary, compatible: \">=0.22, <1\"", "empty: canary, env: {PYTHONHASHSEED: \"0\"}",
        "empty: {http: GET /x, expect: \"0\"}", "empty: canary, files: {conf/a.json: x}",
        "empty: canary, devices: [/dev/infiniband], mounts: [\"${work}/a:/data:ro\"]"}) {
    CAPTURE(good);
    CHECK(WrongStack("empty: canary", good, names) == "");
  }
  for (const char* good : {"kv: {compression: cachegen}\nparams:", "kv: {dtype: fp8_e4m3}\nparams:"})
    CHECK(WrongStack("params:", good, names) == "");
}

TEST_CASE("a ${…} that means nothing is an error once, at its place, with what was meant", "[C5]") {
  const auto with = [](const std::string& word) {
    return WrongStack("\"${port.http}\"", "\"${port.http}\", \"" + word + "\"");
  };
  struct Case {
    std::string word, expected;
  };
  const std::vector<Case> cases = {
      {"${nosuch}", "s.yaml:6:103 processes[0].argv[3]: ${nosuch} cannot be filled: means nothing here"},
      {"${modl}", "did you mean ${model}?"},
      {"${port.prom}", "process 'engine' has no port 'prom'"},
      {"${router.url.htp}", "process 'router' has no port 'htp'"},
      {"${store.address}", "no process or role is called 'store'"},
      {"${list.engines.url.http}", "did you mean ${list.engine.url.http}?"},
      {"${router.colour}", "'colour' is no field of a process"},
      {"${bytes.host}", "process 'engine' owns no tier of source host"},
      {"${dir.kv}", "process 'engine' has no directory 'kv'"},
      {"${kv.chunk_tokens}", "'kv.chunk_tokens' is not set in this stack"},
      {"${model", "has a ${ without its }"},
      {"x${}", "${} cannot be filled"},
      {"${nosuch}${nosuch}", "${nosuch} cannot be filled"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.word);
    const std::string text = with(one.word);
    INFO(text);
    CHECK(text.find(one.expected) != std::string::npos);
    CHECK(Lines(text) == 1);
  }
  for (const char* good :
       {"${model}", "${host}-${index}/${count}", "${list.engine.url.http}", "${engine.port.http}",
        "${router.address}", "${kv.dtype}", "${kv.hash_seed}", "${run}", "${gpu_indexes}", "$model {x}"})
    CHECK(with(good) == "");
  // Of all that is called so, and of the tier's owner.
  CHECK(WrongStack("{each: engine,", "{each: nobody,").find("each: no process or role is called 'nobody'") !=
        std::string::npos);
  CHECK(WrongStack("value: \"${url.http}\"", "value: \"${url.grpc}\"")
            .find("process 'engine' has no port 'grpc'") != std::string::npos);
  CHECK(WrongStack("params:", "tiers: [{source: host, size: \"${hots}\", owner: engine}]\nparams:")
            .find("tiers[0].size: ${hots} cannot be filled: means nothing here: did you mean ${host}?") !=
        std::string::npos);
  // An attached stack fills nothing.
  Errors errors;
  CHECK(ReadStack("version: 1\nstrategy: local\nlaunch: attach\nprocesses:\n  - {name: engine, role: engine, "
                  "ports: [http], at: [{url: \"http://10.0.0.1:1\"}]}\nentry: engine.http\n",
                  "a.yaml", &errors)
            .ok());
  CHECK_FALSE(
      ReadStack("version: 1\nstrategy: local\nlaunch: attach\nprocesses:\n  - {name: engine, role: "
                "engine, ports: [http], at: [{url: \"10.0.0.1:1\", metrics: x}]}\nentry: engine.http\n",
                "a.yaml", &errors)
          .ok());
  CHECK(Texts(errors).find("a.yaml:5:60 processes[0].at[0].url: '10.0.0.1:1' is no address") !=
        std::string::npos);
}

TEST_CASE("mistakes of every kind in one stack file come at once, each at its own line", "[C5]") {
  const std::string stack = R"(version: 1
strategy: split
params: {a: "${b}"}
kv: {dtype: bf17}
tiers:
  - {source: host, size: 1GiB, owner: nobody}
processes:
  - name: engine
    role: engine
    exec: "sh -c x"
    env: {"A B": x}
    argv: ["${nosuch}"]
    ports: [http]
    ready: {http: health}
  - name: engine
    role: router
    exec: poolmark-sim
entry: router.http
)";
  Errors errors;
  CHECK_FALSE(ReadStack(stack, "bs.yaml", &errors).ok());
  const std::string text = Texts(errors);
  INFO(text);
  for (const char* expected :
       {"bs.yaml:2:11 strategy: split needs a process of role prefill",
        "bs.yaml:3:13 params.a: '${b}' is taken as it stands", "bs.yaml:4:13 kv.dtype: is 'bf17'",
        "bs.yaml:6:39 tiers[0].owner: no process is called 'nobody'",
        "bs.yaml:10:11 processes[0].exec: 'sh -c x' is no name of a program",
        "bs.yaml:11:18 processes[0].env.A B: 'A B' is no name of a variable",
        "bs.yaml:12:12 processes[0].argv[0]: ${nosuch} cannot be filled",
        "bs.yaml:14:19 processes[0].ready.http: 'health' is no path",
        "bs.yaml:15:5 processes[1]: process 'engine' stands twice",
        "bs.yaml:18:8 entry: 'router.http' is no port of a process"}) {
    CAPTURE(expected);
    CHECK(text.find(expected) != std::string::npos);
  }
  CHECK(Lines(text) == 10);
}

TEST_CASE("versions are compared place by place", "[A8]") {
  CHECK(InVersionRange(">=0.22", "0.32.1") == true);
  CHECK(InVersionRange(">=0.22", "0.9.3") == false);
  CHECK(InVersionRange(">=0.22", "v0.22") == true);
  CHECK(InVersionRange(">=0.22", "0.22.0rc1") == true);
  CHECK(InVersionRange(">=0.22, <1", "1.0.0") == false);
  CHECK(InVersionRange("==0.32", "0.32.0+sim") == true);
  CHECK(InVersionRange(">11000", "b11549") == true);
  CHECK(InVersionRange("<=0.5.19", "0.5.19.1") == false);
  CHECK_FALSE(InVersionRange(">=1", "unknown").has_value());
  CHECK_FALSE(InVersionRange("~1", "1.0").has_value());
  for (const char* wrong : {"", "1", ">=", ">=x", ">=1.2rc1", ">=1,", "=>1", ">=1 <2"}) {
    CAPTURE(wrong);
    CHECK_FALSE(CheckVersionRange(wrong).ok());
  }
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
