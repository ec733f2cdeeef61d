// The agent's end of a guard's socket. GuardClient asks (thread-safe, one question at a time); GuardWatch
// follows the events on a connection of its own (one thread).
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/guard/record.h"
#include "agent/guard/unique_fd.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::process {

struct GuardReply {
  std::vector<guard::Record> data;
  guard::Record ok;
};

// A connected Unix stream that carries records, a line each. Not thread-safe.
class GuardLine {
 public:
  // Connects to <run_directory>/guard.sock.
  static Result<std::unique_ptr<GuardLine>> Connect(const std::string& run_directory);
  Status Send(const guard::Record& record);
  // The next record; DEADLINE_EXCEEDED when none comes in time, UNAVAILABLE when the guard is gone.
  Result<guard::Record> Receive(Nanoseconds timeout);
  // Makes a waiting Receive return UNAVAILABLE. Callable from another thread.
  void Shutdown();

 private:
  GuardLine(std::string where, guard::UniqueFd fd) : where_(std::move(where)), fd_(std::move(fd)) {}
  std::string where_;
  guard::UniqueFd fd_;
  std::string in_;
};

class GuardClient {
 public:
  static Result<std::unique_ptr<GuardClient>> Connect(const std::string& run_directory);
  // A refusal by the guard is FAILED_PRECONDITION (INVALID_ARGUMENT for a bad request) with the guard's own
  // code and text; a dead guard is UNAVAILABLE.
  Result<GuardReply> Ask(const guard::Record& request, Nanoseconds timeout = std::chrono::seconds(30));

 private:
  explicit GuardClient(std::unique_ptr<GuardLine> line) : line_(std::move(line)) {}
  std::mutex mutex_;  // guards line_: one question at a time
  std::unique_ptr<GuardLine> line_;
};

class GuardWatch {
 public:
  static Result<std::unique_ptr<GuardWatch>> Connect(const std::string& run_directory,
                                                     uint64_t after_sequence);
  Result<guard::Record> Next(Nanoseconds timeout) { return line_->Receive(timeout); }
  void Shutdown() { line_->Shutdown(); }

 private:
  explicit GuardWatch(std::unique_ptr<GuardLine> line) : line_(std::move(line)) {}
  std::unique_ptr<GuardLine> line_;
};

}  // namespace poolmark::process
