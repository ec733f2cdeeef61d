// What one request leaves behind; a line of requests.jsonl.zst. Times are nanoseconds from the start
// of the load on the steady clock (kernel stamps converted to it). Plain values.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poolmark::load {

enum class Outcome : uint8_t {
  kOk,
  kConnect,      // no connection
  kHttpStatus,   // a status other than 2xx; `http_status` says which
  kErrorEvent,   // an error object inside a 200 stream
  kTruncated,    // the stream ended without [DONE] or finish_reason
  kReset,        // connection reset while streaming
  kStalled,      // no byte within the stall limit
  kDeadline,     // not ended within the per-request deadline
  kNoOutput,     // ended well, but without any output
  kProtocol,     // no valid HTTP or SSE
  kCancelled,    // cut off at the end of the drain
};

struct OutputEvent {
  int64_t at = 0;       // arrival
  uint32_t tokens = 1;  // tokens in this event where the engine says so, else 1
};

struct RequestRecord {
  uint64_t session = 0;
  uint32_t turn = 0;
  std::string session_id;
  std::string agent;
  bool primer = false;
  std::optional<int64_t> intended;  // open loop: planned send time
  int64_t sent = 0;                 // last byte written
  int64_t started = 0;              // first byte about to be written
  std::optional<int64_t> connect;   // duration of connection set-up, where one was made
  std::optional<int64_t> first_byte;
  std::optional<int64_t> first_output;         // content, reasoning or tool call (M4)
  std::optional<int64_t> first_answer_output;  // content or tool call
  std::optional<int64_t> last_output;
  int64_t end = 0;
  std::optional<int64_t> kernel_first_output;  // by the kernel's receive stamp
  std::vector<OutputEvent> events;
  int64_t planned_input_tokens = 0;
  std::optional<int64_t> input_tokens;   // usage.prompt_tokens
  std::optional<int64_t> cached_tokens;  // usage.prompt_tokens_details.cached_tokens
  std::optional<int64_t> output_tokens;  // usage.completion_tokens
  bool output_tokens_counted = false;    // no usage: events were counted instead (M4)
  uint32_t first_event_tokens = 1;
  Outcome outcome = Outcome::kOk;
  int http_status = 0;
  int attempts = 1;  // more than one only with an explicit retry policy
  std::string error;
  std::string finish_reason;
};

}  // namespace poolmark::load
