// What the plan adds so that an empty start can be shown (M22).
#include "controller/stacks/starting_state.h"

#include <catch2/catch.hpp>

using namespace poolmark;
using namespace poolmark::controller;

namespace {

PlannedProcess Process(const std::string& name, spec::Role role) {
  PlannedProcess process;
  process.template_name = name;
  process.role = role;
  process.machine = "n0";
  process.spec.set_id("s." + name + "-n0");
  return process;
}

v1::ResetStep Step(const std::string& method) {
  v1::ResetStep step;
  step.set_method(method);
  return step;
}

struct Completed {
  StackPlan stack;
  Errors refusals;
  std::vector<std::string> notes;
};

Completed Complete(std::vector<PlannedProcess> processes, bool attach = false, bool reset_allowed = true) {
  Completed out;
  out.stack.name = "s";
  out.stack.attach = attach;
  out.stack.reset_allowed = reset_allowed;
  out.stack.processes = std::move(processes);
  CompleteStartingState(&out.stack, &out.refusals, &out.notes);
  return out;
}

}  // namespace

TEST_CASE("an engine without reset and gauge is started anew and asked a canary", "[I6][C4]") {
  auto done = Complete({Process("engine", spec::Role::kEngine), Process("router", spec::Role::kRouter)});
  CHECK(done.stack.processes[0].restart_to_reset);
  CHECK(done.stack.processes[0].canary);
  CHECK_FALSE(done.stack.processes[1].restart_to_reset);  // a router holds no KV
  CHECK_FALSE(done.stack.processes[1].canary);
  CHECK(done.refusals.empty());
  REQUIRE(done.notes.size() == 2);
  CHECK(done.notes[0] == "stack s: engine: no reset in the stack file: started anew before every repeat");
  CHECK_THAT(done.notes[1], Catch::Contains("a canary prompt shows"));
}

TEST_CASE("what the stack file gives is left as it is", "[I6]") {
  auto engine = Process("engine", spec::Role::kEngine);
  engine.resets = {Step("POST")};
  engine.empties = {Step("SERIES")};
  auto done = Complete({engine});
  CHECK_FALSE(done.stack.processes[0].restart_to_reset);
  CHECK_FALSE(done.stack.processes[0].canary);
  CHECK(done.notes.empty());
}

TEST_CASE("a store that cannot be asked is read by its engines' canaries", "[I6]") {
  auto engine = Process("engine", spec::Role::kEngine);
  engine.resets = {Step("POST")};
  engine.empties = {Step("SERIES")};
  auto done = Complete({Process("store", spec::Role::kStore), engine});
  CHECK(done.stack.processes[0].restart_to_reset);
  CHECK_FALSE(done.stack.processes[0].canary);
  CHECK(done.stack.processes[1].canary);
  CHECK(done.notes.size() == 3);
}

TEST_CASE("an attached engine is not ours to restart: without a reset it is refused", "[I6][C5]") {
  auto engine = Process("engine", spec::Role::kEngine);
  engine.attached = true;
  auto done = Complete({engine}, true);
  REQUIRE(done.refusals.size() == 1);
  CHECK_THAT(std::string(ToStatus(done.refusals[0]).message()),
             Catch::Contains("'engine'") && Catch::Contains("give it a reset"));
  // Where nothing may be reset, nothing is claimed either.
  CHECK(Complete({engine}, true, false).refusals.empty());
  engine.resets = {Step("POST")};
  done = Complete({engine}, true);
  CHECK(done.refusals.empty());
  CHECK(done.stack.processes[0].canary);
}
