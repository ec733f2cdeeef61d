// A pool, a stack and a job that are right, for tests that change one thing in them, and how they are read.
#pragma once
#include <map>
#include <string>

#include "common/spec/read.h"

namespace poolmark::test {

inline constexpr char kPool[] = R"(version: 1
head: n0
machines:
  - {name: n0, net: {tcp: 127.0.0.1}}
  - {name: n1}
)";
inline constexpr char kStack[] = R"(version: 1
strategy: local
engine: sim
params: {model: sim, host: 1GiB}
processes:
  - {name: engine, role: engine, on: each, exec: poolmark-sim, argv: [engine, --port, "${port.http}"], ports: [http],
     ready: {http: /health, within: 1m}, metrics: {port: http, dialect: sim}, reset: {http: "POST /reset_prefix_cache"}, empty: canary}
  - {name: router, role: router, on: head, exec: poolmark-sim, argv: [router, {each: engine, value: "${url.http}"}], ports: [http]}
entry: router.http
)";
inline constexpr char kJob[] = R"(version: 1
pool: pool.yaml
stacks: [{use: stack.yaml, as: base}]
workloads:
  synth: {shape: synthetic, groups: 2, prefix: 100, sessions: 4, turns: 2, input: 20, growth: 10, output: 8, concurrency: [2, 4]}
repeats: 3
)";

inline spec::Files FilesFrom(std::map<std::string, std::string> files) {
  return [files](const std::string& name) -> Result<std::string> {
    auto found = files.find(name);
    if (found == files.end()) return NotFound(name, "no such file");
    return found->second;
  };
}

inline Result<spec::JobSpec> Read(const std::string& job, Errors* errors, const std::string& stack = kStack,
                                  const std::string& pool = kPool,
                                  const std::map<std::string, std::string>& set = {}) {
  return spec::ReadJob(job, "job.yaml",
                       FilesFrom({{"pool.yaml", pool}, {"stack.yaml", stack}, {"sessions.jsonl", "{}"}}), set,
                       errors);
}

inline std::string Texts(const Errors& errors) {
  std::string text;
  for (const Error& error : errors) text += std::string(ToStatus(error).message()) + "\n";
  return text;
}

}  // namespace poolmark::test
