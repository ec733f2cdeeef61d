// What the load generator asks for: sessions of turns. The workload shapes implement it (common/workload),
// `poolmark load` without a file has a simple one of its own.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::load {

// One request of a session. Times are of the plan, not of the clock.
struct TurnPlan {
  // Traces: intended send time, from the start of the load. Nothing: send when the turns before have ended
  // and `think` has passed.
  std::optional<Nanoseconds> at;
  Nanoseconds think{0};       // from the end of the turn before; ignored when `at` is set and later
  int64_t input_tokens = 0;   // planned prompt tokens
  int64_t output_tokens = 0;  // max_tokens of the request
  bool primer = false;        // primes a cache in the warm-up (M20); never a result
  std::string agent;          // agentic replay: sub-agent name; "" for the session itself
  // Earlier turns of the same session that must have ended before this one starts; empty: the turn before.
  std::vector<uint32_t> after;
};

// A session; used by one event loop at a time.
class Session {
 public:
  virtual ~Session() = default;
  virtual std::string_view id() const = 0;
  virtual size_t turns() const = 0;
  virtual TurnPlan turn(size_t index) const = 0;
  // The JSON body of the request for turn `index`, appended to `body` (cleared by the caller). Built late,
  // so that a long trace needs little memory, and possibly more than once (retry policy). Must ask for a
  // stream ("stream": true) with usage ("stream_options": {"include_usage": true}). With
  // `answers: live` the engine's answers were given to TakeAnswer before.
  virtual void Render(size_t index, std::string* body) = 0;
  // The text that the engine produced for turn `index`; only called when wants_answers(). A failed turn
  // of such a session ends it.
  virtual void TakeAnswer(size_t, std::string_view) {}
  virtual bool wants_answers() const { return false; }
};

// Sessions in plan order. Thread-safe: loops and processes take from one source.
class SessionSource {
 public:
  virtual ~SessionSource() = default;
  // How many there are; nothing: without end.
  virtual std::optional<uint64_t> size() const = 0;
  // The session with that number (0 …), or nullptr past the end. Any order; the same number gives the
  // same session in every process, which is how several processes share one plan without overlap.
  // Sessions of a trace are numbered in the order of their first turn's time.
  virtual std::unique_ptr<Session> Open(uint64_t number) = 0;
  // "/v1/chat/completions" or "/v1/completions".
  virtual std::string_view api_path() const = 0;
};

}  // namespace poolmark::load
