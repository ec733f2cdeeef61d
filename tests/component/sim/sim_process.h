// Starts the real programs (poolmark-sim, redis-server) for a test and ends them with it.
#pragma once
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/http/client.h"

namespace poolmark::test {

// A child process whose stdout is read line by line. Ended with SIGKILL when the object goes, if it lives.
class Child {
 public:
  Child(const std::string& program, std::vector<std::string> arguments,
        std::vector<std::string> environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }
  // The rest of the first line that starts with `prefix`; fails the test after 10 s.
  std::string Line(const std::string& prefix);
  void Signal(int number);
  // Exit code, or 128 + signal; nothing when it still lives after `milliseconds`.
  std::optional<int> Wait(int milliseconds);

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string text_;
};

class Sim {
 public:
  // poolmark-sim <arguments...>; waits for "listening".
  explicit Sim(std::vector<std::string> arguments, std::vector<std::string> environment = {});
  std::string url() const { return "http://127.0.0.1:" + port_; }
  std::string address() const { return "127.0.0.1:" + port_; }
  Child& child() { return *child_; }
  http::Response Get(const std::string& path);
  http::Response Post(const std::string& path, const std::string& body);
  // A series of /metrics; `labels` is text that the line has to hold, such as source="host". Sums lines;
  // rounded.
  int64_t Metric(const std::string& name, const std::string& labels = "");

 private:
  std::unique_ptr<Child> child_;
  std::string port_;
};

// A redis-server on a free port, or nullptr when none is installed.
class Redis {
 public:
  static std::unique_ptr<Redis> Start(const std::string& directory);
  std::string url() const { return "redis://127.0.0.1:" + port_; }
  std::string address() const { return "127.0.0.1:" + port_; }
  Child& child() { return *child_; }

 private:
  std::unique_ptr<Child> child_;
  std::string port_;
};

http::Response Fetch(const std::string& method, const std::string& url, const std::string& body = "");
// {"prompt": text, "max_tokens": n, ...extra}
std::string Completion(const std::string& prompt, int max_tokens, const std::string& extra = "");
// Text of about `words` tokens that differs per seed.
std::string Prompt(int seed, int words);
// The body of a JSON reply: the whole number at a path such as "usage/prompt_tokens"; -1 when absent.
int64_t NumberAt(const std::string& json, const std::string& path);
std::string TextAt(const std::string& json, const std::string& path);

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace poolmark::test
