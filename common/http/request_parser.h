// Reads HTTP/1.1 requests from a byte stream that may be hostile: push parser, no I/O. One object per
// connection; not thread-safe. Refused: line folding, bare CR or LF, two framings at once (request
// smuggling), transfer codings other than chunked, heads over 64 KiB, bodies over the bound.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/http/server.h"

namespace poolmark::http {

class RequestParser {
 public:
  enum class State { kHead, kBody, kDone, kBad };

  static constexpr size_t kMaxHeadBytes = 64u << 10;
  static constexpr size_t kMaxHeaders = 128;

  explicit RequestParser(size_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

  // Takes bytes off the front of `input` (which the caller erases): returns how many were used. Stops at
  // the end of one request; call again after Next().
  size_t Feed(std::string_view input);

  State state() const { return state_; }
  // kBad: the status to answer (400, 413, 431, 501, 505) and why.
  int error_status() const { return error_status_; }
  const std::string& error() const { return error_; }

  // From the end of the head on.
  bool keep_alive() const { return keep_alive_; }
  bool http_1_0() const { return http_1_0_; }
  // True once after a head with "Expect: 100-continue" whose body is still to come.
  bool TakeExpectContinue();
  // True when any byte of a request has been seen (an idle connection has none).
  bool started() const { return started_; }

  ServerRequest& request() { return request_; }
  // Ready for the next request on the connection.
  void Next();

 private:
  enum class Chunk { kSize, kData, kDataEnd, kTrailer };

  size_t Bad(int status, std::string why);
  bool ParseHead(std::string_view head);
  bool ParseRequestLine(std::string_view line);
  bool ParseHeaderLine(std::string_view line);
  bool DecideFraming();
  size_t FeedChunked(std::string_view input);

  size_t max_body_bytes_;
  State state_ = State::kHead;
  std::string line_;  // head bytes, or a chunk-size line, collected so far
  ServerRequest request_;
  bool started_ = false;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool expect_continue_ = false;
  bool chunked_ = false;
  Chunk chunk_ = Chunk::kSize;
  uint64_t body_left_ = 0;
  size_t trailer_bytes_ = 0;
  int error_status_ = 0;
  std::string error_;
};

// Percent-decodes a path; false for a broken escape or a NUL.
bool DecodePath(std::string_view text, std::string* out);
// Case-insensitive ASCII comparison, as header names want it.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace poolmark::http
