// A child process whose output goes to files; ended with the object.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace poolmark::test {

class Process {
 public:
  // Starts argv[0] (looked up in PATH), stdout and stderr to <output>.out and <output>.err.
  Process(const std::vector<std::string>& argv, const std::string& output);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void Signal(int number);
  pid_t pid() const { return pid_; }
  // Exit code, or 128 + signal; nothing when it still runs after that time.
  std::optional<int> Wait(int milliseconds);
  std::string out() const;
  std::string err() const;

 private:
  pid_t pid_ = -1;
  std::optional<int> code_;
  std::string output_;
};

// The bench's mock server, built from the shared directory once a process; "" when there is none.
const std::string& MockServer();

}  // namespace poolmark::test
