// A spawner that replays what a tool printed, by the command's first word and, when given, a word that must
// be among its arguments. A tool it does not know is "not installed". Remembers what was started. Not
// thread-safe.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "agent/facts/command.h"

namespace poolmark::test {

class FakeChild final : public agent::Child {
 public:
  FakeChild(agent::CommandOutput output, bool hangs) : output_(std::move(output)), ended_(!hangs) {}
  int pid() const override { return 4242; }
  const agent::CommandOutput& Poll() override { return output_; }
  bool ended() const override { return ended_; }
  bool Wait(Nanoseconds) override { return ended_; }
  agent::CommandOutput Stop(Nanoseconds) override {
    if (!ended_) {
      output_.exit_code.reset();
      output_.exit_signal = 15;
    }
    ended_ = true;
    return output_;
  }

 private:
  agent::CommandOutput output_;
  bool ended_;
};

class FakeSpawner final : public agent::Spawner {
 public:
  // `hangs`: the process prints its output and stays until it is stopped.
  void Add(std::string tool, std::string out, int exit_code = 0, std::string err = "",
           std::string argument = "", bool hangs = false) {
    agent::CommandOutput output;
    output.out = std::move(out);
    output.err = std::move(err);
    if (!hangs) output.exit_code = exit_code;
    replies_.push_back({std::move(tool), std::move(argument), std::move(output), hangs});
  }
  Result<std::unique_ptr<agent::Child>> Start(const agent::Command& command) override {
    started.push_back(command);
    for (const Reply& reply : replies_) {
      const bool has = reply.argument.empty() || std::find(command.argv.begin(), command.argv.end(),
                                                           reply.argument) != command.argv.end();
      if (reply.tool == command.argv[0] && has) return std::make_unique<FakeChild>(reply.output, reply.hangs);
    }
    return NotFound(command.argv[0], "no such executable in PATH");
  }
  std::vector<agent::Command> started;

 private:
  struct Reply {
    std::string tool;
    std::string argument;
    agent::CommandOutput output;
    bool hangs;
  };
  std::vector<Reply> replies_;
};

}  // namespace poolmark::test
