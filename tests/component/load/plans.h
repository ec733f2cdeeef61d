// Plan files for the program, and several of them run at once, as the workers of a load are.
#pragma once
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/component/load/program.h"

namespace poolmark::load::test {

inline Json Synthetic(int sessions, int turns = 1) {
  return {{"shape", "synthetic"}, {"sessions", sessions}, {"turns", turns}, {"input", 16}, {"output", 4}};
}

// `more`: further keys, as they are.
inline Json PlanOf(const poolmark::test::TokenServer& server, const Json& workload, const Json& level,
                   const Json& more = Json::object()) {
  Json plan = {{"schema_version", 1}, {"urls", {server.url()}}, {"workload", workload}, {"load", level}};
  plan.update(more);
  return plan;
}

// The keys of a worker. `start`: nanoseconds of CLOCK_REALTIME, the same for all of a load.
inline Json WorkerOf(int worker, int workers, int64_t start) {
  return {{"worker", worker}, {"workers", workers}, {"start_at_wall_ns", start}};
}

// Far enough for some programs to be ready on a busy machine.
inline int64_t Soon() {
  return (RealClock().Wall() + std::chrono::seconds(3)).count();
}

// Writes the plan to <dir>/<name>.json, for results in <dir>/<name>.
inline std::string WritePlan(const poolmark::test::TempDir& dir, const std::string& name, Json plan) {
  plan["out"] = dir / name;
  REQUIRE(AtomicWriteFile(dir / (name + ".json"), *DumpJson(plan)).ok());
  return dir / (name + ".json");
}

// Runs them all at once, by name, to their good end.
inline void RunPlans(const poolmark::test::TempDir& dir, const std::map<std::string, Json>& plans) {
  std::vector<std::unique_ptr<poolmark::test::Process>> running;
  for (const auto& [name, plan] : plans) {
    running.push_back(std::make_unique<poolmark::test::Process>(
        std::vector<std::string>{kProgram, "load", "--plan", WritePlan(dir, name, plan)},
        dir / (name + "-run")));
  }
  for (const auto& process : running) {
    const auto code = process->Wait(60000);
    INFO(process->err() << process->out());
    REQUIRE(code == 0);
  }
}

}  // namespace poolmark::load::test
