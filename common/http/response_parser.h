// Incremental HTTP/1.1 response parser: head, then body pieces without framing, as views into the
// caller's bytes. Made for hostile peers (limits, no smuggling) and for the load's hot path (no copy of
// the body, no allocation per response once warm). One response at a time; not thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/http/client.h"

namespace poolmark::http {

class ResponseParser {
 public:
  enum class Step {
    kNeedMore,  // all bytes used; call again with the next ones
    kHead,      // status line and headers are known now
    kBody,      // `piece` holds decoded body bytes
    kDone,      // the response is complete; what is left of `in` belongs to no response
    kError,     // error() says what
  };

  explicit ResponseParser(size_t max_head_bytes = 64u << 10) : max_head_bytes_(max_head_bytes) {}

  // Before each response. `no_body`: the request was a HEAD.
  void Reset(bool no_body = false);
  // Advances over *in. Call until kNeedMore, kDone or kError.
  Step Next(std::string_view* in, std::string_view* piece);
  // The peer closed. kDone where the body ends with the connection, else kError.
  Step Closed();

  // Valid from kHead on.
  int status() const { return status_; }
  bool keep_alive() const { return keep_alive_; }
  std::string_view head() const { return head_; }
  Headers headers() const;
  // Whether any byte of the response was seen.
  bool started() const { return state_ != State::kHead || !head_.empty(); }
  const std::string& error() const { return error_; }

 private:
  enum class State : uint8_t {
    kHead,
    kLength,
    kUntilClose,
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailer,
    kDone,
    kFailed
  };

  Step Fail(std::string what);
  Step TakeHead(std::string_view* in);
  Step ParseHead();
  bool ParseHeader(std::string_view line);
  Step TakeChunkSize(std::string_view* in, bool* more);

  size_t max_head_bytes_;
  State state_ = State::kHead;
  bool no_body_ = false;
  bool keep_alive_ = true;
  bool chunked_ = false;
  bool has_length_ = false;
  bool line_has_digits_ = false;
  bool in_extension_ = false;
  int status_ = 0;
  uint64_t left_ = 0;
  size_t line_bytes_ = 0;
  size_t trailer_bytes_ = 0;
  std::string head_;
  std::string error_;
};

}  // namespace poolmark::http
