// Reads the body of a streamed chat completion as it arrives: server-sent events of OpenAI's
// chat.completion.chunk. Pure (times come in); hostile input ends in failed(). Not thread-safe per object.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/http/sse.h"

namespace poolmark::quality {

class ChatStream {
 public:
  // More of either fails the stream.
  static constexpr size_t kMaxEvent = 16u << 20;
  static constexpr size_t kMaxText = 8u << 20;

  // One piece of the body and when it came. False: nothing more is wanted (the end marker, or a failure).
  bool Feed(std::string_view piece, Nanoseconds now);
  // The body ended; an event without its closing blank line is taken too.
  void End();

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  // Content and reasoning in order of arrival; valid UTF-8.
  const std::string& text() const { return text_; }
  // First text of any kind; without text but with generated tokens, the first chunk; else nothing, and the
  // request produced no output.
  std::optional<Nanoseconds> first_output() const;
  int64_t output_tokens() const { return completion_tokens_ > 0 ? completion_tokens_ : text_chunks_; }

 private:
  void Event(const http::SseEvent& event);
  void Chunk(std::string_view json);

  http::SseParser events_{kMaxEvent};
  bool done_ = false;
  std::string error_;
  std::string text_;
  Nanoseconds now_{0};
  std::optional<Nanoseconds> first_text_;
  std::optional<Nanoseconds> first_chunk_;
  int64_t text_chunks_ = 0;
  int64_t completion_tokens_ = 0;
};

}  // namespace poolmark::quality
