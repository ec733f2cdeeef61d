#include "tests/component/cli/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "common/base/files.h"
#include "tests/support/shared_data.h"

extern char** environ;  // NOLINT

namespace poolmark::test {

Program::Program(const std::string& name, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, const std::string& input) {
  REQUIRE(AtomicWriteFile(dir_ / "in", input).ok());
  const std::string path = BuiltProgram(name);
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) variables.emplace_back(*at);
  for (const auto& [key, value] : environment) variables.insert(variables.begin(), key + "=" + value);
  auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  std::vector<char*> argv = pointers(words);
  std::vector<char*> envp = pointers(variables);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, (dir_ / "in").c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (dir_ / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (dir_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  int rc = posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  INFO(path);
  REQUIRE(rc == 0);
}

Program::~Program() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::Signal(int number) {
  kill(pid_, number);
}

std::string Program::Out() const {
  return ReadFile(dir_ / "out").value_or("");
}
std::string Program::Err() const {
  return ReadFile(dir_ / "err").value_or("");
}

Outcome Program::Wait() {
  int status = 0;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Out(), Err()};
}

Outcome Run(const std::string& name, const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& environment, const std::string& input) {
  Program program(name, arguments, environment, input);
  return program.Wait();
}

}  // namespace poolmark::test
