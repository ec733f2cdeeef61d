// What one request leaves behind; a line of requests.jsonl.zst (record_codec.h). Times are nanoseconds
// from the start of the load on the steady clock (kernel stamps converted to it). Plain values.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::load {

enum class Outcome : uint8_t {
  kOk,
  kConnect,     // no connection
  kHttpStatus,  // a status other than 2xx; `http_status` says which
  kErrorEvent,  // an error object inside a 200 stream
  kTruncated,   // the stream ended without [DONE] or finish_reason
  kReset,       // connection lost while sending or streaming
  kStalled,     // no byte within the stall limit after the first output
  kDeadline,    // not ended within the per-request deadline
  kNoOutput,    // ended well, but without any output
  kProtocol,    // no valid HTTP, SSE or JSON
  kCancelled,   // cut off at the end of the drain
};
inline constexpr int kOutcomes = 11;
// "ok", "connect", "http_status", …: the words of the record files.
std::string_view OutcomeName(Outcome outcome);
std::optional<Outcome> OutcomeOf(std::string_view name);

// What is said of a cancelled request of which no byte, or none of another attempt, was sent.
inline constexpr std::string_view kCutUnsent = "cut off before it could be sent";
inline constexpr std::string_view kCutBetweenAttempts = "cut off before another attempt";

struct OutputEvent {
  int64_t at = 0;       // arrival, as the program saw it
  uint32_t tokens = 1;  // tokens in this event where the engine says so, else 1
  bool operator==(const OutputEvent&) const = default;
};

struct RequestRecord {
  uint64_t session = 0;
  uint32_t turn = 0;
  std::string session_id;
  std::string agent;
  bool primer = false;
  uint32_t target = 0;              // index of the URL it went to
  std::optional<int64_t> intended;  // open loop: planned send time
  int64_t started = 0;              // first byte about to be written
  int64_t sent = 0;                 // last byte written; equals `started` where nothing could be sent
  std::optional<int64_t> connect;   // duration of connection set-up, where one was made for this request
  std::optional<int64_t> first_byte;
  std::optional<int64_t> first_output;         // content, reasoning or tool call (M4)
  std::optional<int64_t> first_answer_output;  // content or tool call
  std::optional<int64_t> last_output;
  int64_t end = 0;
  // By the kernel's receive stamps, which belong to the last segment of a read: "not later than".
  std::optional<int64_t> kernel_first_output;
  std::optional<int64_t> kernel_last_output;
  std::optional<int64_t> lateness;  // largest delay from the kernel's stamp to the program, over its reads
  std::vector<OutputEvent> events;
  int64_t planned_input_tokens = 0;
  std::optional<int64_t> input_tokens;   // usage.prompt_tokens
  std::optional<int64_t> cached_tokens;  // usage.prompt_tokens_details.cached_tokens
  std::optional<int64_t> output_tokens;  // usage.completion_tokens, else the events' tokens
  bool output_tokens_counted = false;    // no usage: events were counted instead (M4)
  // Tokens of the first event: from the engine (usage or token ids in each event), else the mean of
  // tokens per event, rounded; at least 1.
  uint32_t first_event_tokens = 1;
  bool event_tokens_known = false;  // the engine said how many tokens each event holds
  Outcome outcome = Outcome::kOk;
  int http_status = 0;
  int attempts = 1;  // more than one only with an explicit retry policy
  std::string error;
  std::string finish_reason;

  // Where latency counts from: the intended time in an open loop, else the last byte sent (M4).
  int64_t latency_start() const { return intended.value_or(sent); }
  // Whether `started` to `end` was on a connection.
  bool was_sent() const {
    return outcome != Outcome::kConnect && error != kCutUnsent && error != kCutBetweenAttempts;
  }
  // Which window the request belongs to.
  int64_t window_time() const { return intended.value_or(started); }
  // Ready for the next request; keeps the memory.
  void Clear();
  bool operator==(const RequestRecord&) const = default;
};

}  // namespace poolmark::load
