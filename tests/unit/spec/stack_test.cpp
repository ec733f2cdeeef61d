// Stack files: what is refused, at its place, with what was meant; the versions that one is for.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/spec/read.h"
#include "common/spec/versions.h"
#include "tests/unit/spec/spec_files.h"

using namespace poolmark;
using namespace poolmark::spec;
using namespace poolmark::test;

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
      {"empty: canary", "empty: canary, disk: {name: kv, path: /mnt/kv}",
       "'/mnt/kv' is one directory for all jobs"},
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
