#include "common/http/response_parser.h"

#include <algorithm>
#include <cstring>

#include "common/http/text.h"

namespace poolmark::http {
namespace {

bool EqualsIgnoringCase(std::string_view a, std::string_view lower) {
  return a.size() == lower.size() &&
         std::equal(a.begin(), a.end(), lower.begin(), [](char x, char y) { return Lower(x) == y; });
}

// Whether a comma-separated list has the token.
bool HasToken(std::string_view list, std::string_view lower) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (EqualsIgnoringCase(Trim(list.substr(0, comma)), lower)) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// The length of the head with its blank line, or 0. Lines end with LF or CRLF; `from` is where a
// former search stopped.
size_t HeadEnd(std::string_view text, size_t from) {
  size_t at = from > 3 ? from - 3 : 0;
  while ((at = text.find('\n', at)) != std::string_view::npos) {
    if (at + 1 < text.size() && text[at + 1] == '\n') return at + 2;
    if (at + 2 < text.size() && text[at + 1] == '\r' && text[at + 2] == '\n') return at + 3;
    ++at;
  }
  return 0;
}

// Takes the next line off `text`, without its end.
std::string_view TakeLine(std::string_view* text) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

constexpr size_t kMaxChunkLine = 4096;

}  // namespace

void ResponseParser::Reset(bool no_body) {
  state_ = State::kHead;
  no_body_ = no_body;
  keep_alive_ = true;
  chunked_ = has_length_ = line_has_digits_ = in_extension_ = false;
  status_ = 0;
  left_ = 0;
  line_bytes_ = trailer_bytes_ = 0;
  head_.clear();
  error_.clear();
}

ResponseParser::Step ResponseParser::Fail(std::string what) {
  state_ = State::kFailed;
  keep_alive_ = false;
  error_ = std::move(what);
  return Step::kError;
}

ResponseParser::Step ResponseParser::Next(std::string_view* in, std::string_view* piece) {
  for (;;) {
    switch (state_) {
      case State::kFailed:
        return Step::kError;
      case State::kDone:
        return Step::kDone;
      case State::kHead:
        return TakeHead(in);
      case State::kLength:
      case State::kChunkData: {
        if (left_ == 0) {
          state_ = state_ == State::kLength ? State::kDone : State::kChunkEnd;
          break;
        }
        if (in->empty()) return Step::kNeedMore;
        *piece = in->substr(0, static_cast<size_t>(std::min<uint64_t>(left_, in->size())));
        in->remove_prefix(piece->size());
        left_ -= piece->size();
        return Step::kBody;
      }
      case State::kUntilClose:
        if (in->empty()) return Step::kNeedMore;
        *piece = *in;
        in->remove_prefix(in->size());
        return Step::kBody;
      case State::kChunkSize: {
        bool more = false;
        const Step step = TakeChunkSize(in, &more);
        if (!more) return step;
        break;
      }
      case State::kChunkEnd:  // CRLF (or LF) after the data
        if (in->empty()) return Step::kNeedMore;
        if (in->front() == '\r' && line_bytes_ == 0) {
          ++line_bytes_;
        } else if (in->front() == '\n') {
          line_bytes_ = 0;
          state_ = State::kChunkSize;
        } else {
          return Fail("a chunk is longer than its size says");
        }
        in->remove_prefix(1);
        break;
      case State::kTrailer: {
        if (in->empty()) return Step::kNeedMore;
        const char c = in->front();
        in->remove_prefix(1);
        if (++trailer_bytes_ > max_head_bytes_) return Fail("the trailer is longer than the limit");
        if (c == '\n') {
          if (line_bytes_ == 0) state_ = State::kDone;
          line_bytes_ = 0;
        } else if (c != '\r') {
          ++line_bytes_;
        }
        break;
      }
    }
  }
}

ResponseParser::Step ResponseParser::TakeChunkSize(std::string_view* in, bool* more) {
  while (!in->empty()) {
    const char c = in->front();
    in->remove_prefix(1);
    if (++line_bytes_ > kMaxChunkLine) return Fail("a chunk's size line is longer than 4096 bytes");
    if (c == '\n') {
      if (!line_has_digits_) return Fail("a chunk has no size");
      line_has_digits_ = in_extension_ = false;
      line_bytes_ = 0;
      state_ = left_ == 0 ? State::kTrailer : State::kChunkData;
      *more = true;
      return Step::kNeedMore;
    }
    if (in_extension_ || c == '\r') continue;
    const char lower = Lower(c);
    int digit = -1;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (lower >= 'a' && lower <= 'f') digit = lower - 'a' + 10;
    if (digit >= 0) {
      if (left_ >> 56 != 0) return Fail("a chunk's size is too large");
      left_ = left_ * 16 + static_cast<uint64_t>(digit);
      line_has_digits_ = true;
    } else if ((c == ';' || c == ' ' || c == '\t') && line_has_digits_) {
      in_extension_ = true;
    } else {
      return Fail("a chunk's size is no hexadecimal number");
    }
  }
  return Step::kNeedMore;
}

ResponseParser::Step ResponseParser::TakeHead(std::string_view* in) {
  for (;;) {
    if (in->empty()) return Step::kNeedMore;
    const size_t before = head_.size();
    const size_t room = max_head_bytes_ - std::min(max_head_bytes_, before);
    head_.append(in->substr(0, room));
    // Told at the first wrong byte, wherever reads cut the start.
    static constexpr std::string_view kStart = "HTTP/1.";
    const size_t known = std::min(head_.size(), kStart.size());
    if (before < kStart.size() && std::string_view(head_).substr(0, known) != kStart.substr(0, known)) {
      return Fail("the answer is not HTTP/1.x");
    }
    const size_t end = HeadEnd(head_, before);
    if (end == 0) {
      if (head_.size() >= max_head_bytes_)
        return Fail("the head is longer than " + std::to_string(max_head_bytes_) + " bytes");
      in->remove_prefix(in->size());
      return Step::kNeedMore;
    }
    in->remove_prefix(end - before);
    head_.resize(end);
    const Step step = ParseHead();
    if (step != Step::kNeedMore) return step;
    head_.clear();  // a 1xx answer came before the real one
  }
}

ResponseParser::Step ResponseParser::ParseHead() {
  std::string_view rest = head_;
  const std::string_view line = TakeLine(&rest);
  // HTTP/1.1 200 OK
  if (line.size() < 12 || !line.starts_with("HTTP/1.") || line[8] != ' ')
    return Fail("the status line is malformed");
  for (const size_t i : {9u, 10u, 11u}) {
    if (line[i] < '0' || line[i] > '9') return Fail("the status line has no status");
  }
  if (line.size() > 12 && line[12] != ' ') return Fail("the status line is malformed");
  status_ = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  if (status_ < 100 || status_ > 599)
    return Fail("status " + std::to_string(status_) + " is not between 100 and 599");
  keep_alive_ = line[7] != '0';
  if (status_ == 101) return Fail("the server switched protocols unasked");
  chunked_ = has_length_ = false;
  left_ = 0;
  while (!rest.empty()) {
    const std::string_view header = TakeLine(&rest);
    if (header.empty()) break;
    if (!ParseHeader(header)) return Step::kError;
  }
  if (status_ < 200) return Step::kNeedMore;
  if (chunked_ && has_length_) return Fail("it has both Content-Length and Transfer-Encoding");
  if (no_body_ || status_ == 204 || status_ == 304) {
    state_ = State::kDone;
  } else if (chunked_) {
    state_ = State::kChunkSize;
  } else if (has_length_) {
    state_ = State::kLength;
  } else {
    state_ = State::kUntilClose;
    keep_alive_ = false;
  }
  return Step::kHead;
}

bool ResponseParser::ParseHeader(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || line[0] == ' ' || line[0] == '\t' ||
      line[colon - 1] == ' ') {
    Fail("a header line is malformed");
    return false;
  }
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = Trim(line.substr(colon + 1));
  if (EqualsIgnoringCase(name, "content-length")) {
    uint64_t length = 0;
    if (value.empty() || value.size() > 18 ||
        !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      Fail("Content-Length is no number");
      return false;
    }
    for (const char c : value) length = length * 10 + static_cast<uint64_t>(c - '0');
    if (has_length_ && length != left_) {
      Fail("it has two different Content-Length headers");
      return false;
    }
    has_length_ = true;
    left_ = length;
  } else if (EqualsIgnoringCase(name, "transfer-encoding")) {
    if (!EqualsIgnoringCase(value, "chunked") || chunked_) {
      Fail("Transfer-Encoding is not just 'chunked'");
      return false;
    }
    chunked_ = true;
  } else if (EqualsIgnoringCase(name, "content-encoding")) {
    if (!EqualsIgnoringCase(value, "identity")) {
      Fail("the body has Content-Encoding '" + std::string(value.substr(0, 40)) +
           "', which was not asked for");
      return false;
    }
  } else if (EqualsIgnoringCase(name, "connection")) {
    if (HasToken(value, "close")) keep_alive_ = false;
    if (HasToken(value, "keep-alive")) keep_alive_ = true;
  }
  return true;
}

ResponseParser::Step ResponseParser::Closed() {
  keep_alive_ = false;
  switch (state_) {
    case State::kDone:
      return Step::kDone;
    case State::kUntilClose:
      state_ = State::kDone;
      return Step::kDone;
    case State::kFailed:
      return Step::kError;
    case State::kHead:
      return Fail(head_.empty() ? "the connection was closed before an answer"
                                : "the connection was closed within the head");
    default:
      return Fail("the connection was closed before the end of the body");
  }
}

Headers ResponseParser::headers() const {
  Headers headers;
  std::string_view rest = head_;
  TakeLine(&rest);
  while (!rest.empty()) {
    const std::string_view line = TakeLine(&rest);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) break;
    headers.emplace_back(std::string(line.substr(0, colon)), std::string(Trim(line.substr(colon + 1))));
  }
  return headers;
}

}  // namespace poolmark::http
