// Reads one response and fills its record: HTTP framing, SSE, stream events, outcome. Pure: bytes and
// times come in, so that recorded answers can be replayed at every split point. Not thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/http/openai.h"
#include "common/http/response_parser.h"
#include "common/http/sse.h"
#include "common/load/record.h"

namespace poolmark::load {

class StreamReader {
 public:
  enum class State {
    kReading,
    kDone,   // [DONE] came; only the end of the HTTP answer is missing
    kEnded,  // the record is complete
  };

  // `record` outlives the exchange. `answer`, when given, receives the text (live answers). An answer of more
  // output events than `most_events` fails and ends.
  void Begin(RequestRecord* record, std::string* answer, size_t most_events = SIZE_MAX);
  // Bytes read at `now`; the kernel's stamp, converted, where there is one.
  State Feed(std::string_view bytes, int64_t now, std::optional<int64_t> kernel);
  // The peer closed, or the connection was lost (`error` says how, "" for an orderly close). After [DONE] the
  // answer is whole either way, and by Abort too: one rule for all ends.
  void Closed(int64_t now, std::string_view error);
  // Ends the exchange from outside: stalled, deadline, cancelled, connect, reset.
  void Abort(Outcome outcome, int64_t now, std::string error);
  // [DONE] came, but the answer does not end: it counts, the connection does not.
  void EndAfterDone(int64_t now) { Finish(now); }

  // Whether the connection can carry another request.
  bool reusable() const { return complete_ && parser_.keep_alive(); }
  // Whether any byte of an answer came.
  bool answered() const { return record_ != nullptr && record_->first_byte.has_value(); }
  bool ended() const { return ended_; }
  // Whether a usage held a count beyond all bounds, which is then none.
  bool absurd_usage() const { return absurd_usage_; }
  std::optional<int64_t> retry_after_seconds() const;

 private:
  enum class Body : uint8_t { kEvents, kJson, kFailure };

  void TakeHead();
  void TakeBody(std::string_view piece);
  void TakeEvent(const http::SseEvent& event);
  void TakeChunk(const http::Chunk& chunk);
  void TakeOutput(const http::Chunk& chunk);
  void Fail(Outcome outcome, std::string error);
  void Finish(int64_t now);
  void FinishTokens();

  http::ResponseParser parser_;
  http::SseParser sse_;
  http::ChunkReader chunks_;
  RequestRecord* record_ = nullptr;
  std::string* answer_ = nullptr;
  std::string plain_body_;
  Body body_ = Body::kEvents;
  int64_t now_ = 0;
  std::optional<int64_t> kernel_;
  int64_t last_usage_ = 0;
  size_t most_events_ = SIZE_MAX;
  bool too_long_ = false;
  bool event_tokens_ = true;  // every output event so far said its tokens
  bool done_ = false;
  bool finished_ = false;  // a finish_reason came
  bool complete_ = false;  // the HTTP answer ended by its own framing
  bool cut_ = false;       // the answer lasted until the connection closed: its last event may be a half one
  bool ended_ = false;
  bool failed_ = false;
  bool absurd_usage_ = false;
};

}  // namespace poolmark::load
