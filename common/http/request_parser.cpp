#include "common/http/request_parser.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/http/text.h"

namespace poolmark::http {
namespace {

// RFC 9110 5.6.2.
bool IsTokenChar(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

// Decimal digits only, no sign; nothing when it does not fit.
std::optional<uint64_t> Decimal(std::string_view text) {
  uint64_t value = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether a comma-separated header holds `word`.
bool ListHas(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    size_t comma = list.find(',');
    if (EqualsIgnoreCase(Trim(list.substr(0, comma)), word)) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return Lower(x) == Lower(y); });
}

bool DecodePath(std::string_view text, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out->push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return false;
    int high = HexDigit(text[i + 1]);
    int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return false;
    out->push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

std::optional<std::string> ServerRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (EqualsIgnoreCase(key, name)) return value;
  }
  return std::nullopt;
}

size_t RequestParser::Bad(int status, std::string why) {
  state_ = State::kBad;
  error_status_ = status;
  error_ = std::move(why);
  keep_alive_ = false;
  return 0;
}

bool RequestParser::TakeExpectContinue() {
  bool result = expect_continue_ && state_ == State::kBody;
  expect_continue_ = false;
  return result;
}

void RequestParser::Next() {
  size_t bound = max_body_bytes_;
  *this = RequestParser(bound);
}

size_t RequestParser::Feed(std::string_view input) {
  size_t used = 0;
  while (used < input.size() && state_ != State::kDone && state_ != State::kBad) {
    std::string_view rest = input.substr(used);
    if (state_ == State::kHead) {
      // Empty lines before a request line are allowed (RFC 9112 2.2).
      if (!started_ && line_.empty() && (rest.front() == '\r' || rest.front() == '\n')) {
        ++used;
        continue;
      }
      started_ = true;
      size_t from = line_.size() < 3 ? 0 : line_.size() - 3;
      size_t before = line_.size();
      line_.append(rest.substr(0, kMaxHeadBytes + 4 - std::min(before, kMaxHeadBytes)));
      size_t end = line_.find("\r\n\r\n", from);
      if (end == std::string::npos) {
        if (line_.size() > kMaxHeadBytes) return used + Bad(431, "the request head is longer than 64 KiB");
        used += line_.size() - before;
        continue;
      }
      used += end + 4 - before;
      std::string head = line_.substr(0, end + 2);
      line_.clear();
      if (!ParseHead(head)) return used;
      continue;
    }
    if (chunked_) {
      used += FeedChunked(rest);
      continue;
    }
    size_t take = static_cast<size_t>(std::min<uint64_t>(body_left_, rest.size()));
    request_.body.append(rest.substr(0, take));
    used += take;
    body_left_ -= take;
    if (body_left_ == 0) state_ = State::kDone;
  }
  return used;
}

bool RequestParser::ParseHead(std::string_view head) {
  if (head.find('\0') != std::string_view::npos) {
    Bad(400, "a NUL byte in the request head");
    return false;
  }
  bool first = true;
  while (!head.empty()) {
    size_t end = head.find("\r\n");
    std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (line.find_first_of("\r\n") != std::string_view::npos) {
      Bad(400, "a line of the request head ends without CRLF");
      return false;
    }
    if (first ? !ParseRequestLine(line) : !ParseHeaderLine(line)) return false;
    first = false;
  }
  return DecideFraming();
}

bool RequestParser::ParseRequestLine(std::string_view line) {
  size_t one = line.find(' ');
  size_t two = one == std::string_view::npos ? one : line.find(' ', one + 1);
  if (two == std::string_view::npos || line.find(' ', two + 1) != std::string_view::npos) {
    Bad(400, "the request line is not 'METHOD target HTTP/1.1'");
    return false;
  }
  std::string_view method = line.substr(0, one);
  std::string_view target = line.substr(one + 1, two - one - 1);
  std::string_view version = line.substr(two + 1);
  if (!IsToken(method) || target.empty()) {
    Bad(400, "the request line is not 'METHOD target HTTP/1.1'");
    return false;
  }
  if (version == "HTTP/1.0") {
    http_1_0_ = true;
  } else if (version != "HTTP/1.1") {
    Bad(version.substr(0, 5) == "HTTP/" ? 505 : 400, "this server speaks HTTP/1.1");
    return false;
  }
  for (unsigned char c : target) {
    if (c <= ' ' || c == 0x7f) {
      Bad(400, "a control character in the request target");
      return false;
    }
  }
  request_.method = method;
  request_.target = target;
  // An absolute target ("http://host/path") counts as its path.
  if (target.front() != '/' && target != "*") {
    size_t scheme = target.find("://");
    size_t slash = scheme == std::string_view::npos ? scheme : target.find('/', scheme + 3);
    if (scheme == std::string_view::npos) {
      Bad(400, "the request target is no path");
      return false;
    }
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  size_t question = target.find('?');
  if (question != std::string_view::npos) request_.query = target.substr(question + 1);
  if (!DecodePath(target.substr(0, question), &request_.path)) {
    Bad(400, "a broken percent escape in the request target");
    return false;
  }
  return true;
}

bool RequestParser::ParseHeaderLine(std::string_view line) {
  if (line.empty() || line.front() == ' ' || line.front() == '\t') {
    Bad(400, "a folded header line");
    return false;
  }
  size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    Bad(400, "a header line is not 'Name: value'");
    return false;
  }
  if (request_.headers.size() >= kMaxHeaders) {
    Bad(431, "more than 128 header lines");
    return false;
  }
  request_.headers.emplace_back(line.substr(0, colon), Trim(line.substr(colon + 1)));
  return true;
}

bool RequestParser::DecideFraming() {
  std::optional<uint64_t> length;
  int hosts = 0;
  bool close = false;
  bool keep = false;
  for (const auto& [name, value] : request_.headers) {
    if (EqualsIgnoreCase(name, "content-length")) {
      std::optional<uint64_t> parsed = Decimal(value);
      if (!parsed || (length && *length != *parsed)) {
        Bad(400, "Content-Length is '" + value.substr(0, 40) + "', one whole number is needed");
        return false;
      }
      length = parsed;
    } else if (EqualsIgnoreCase(name, "transfer-encoding")) {
      if (!EqualsIgnoreCase(value, "chunked") || chunked_) {
        Bad(501, "Transfer-Encoding '" + value.substr(0, 40) + "' is not served, chunked is");
        return false;
      }
      chunked_ = true;
    } else if (EqualsIgnoreCase(name, "host")) {
      ++hosts;
    } else if (EqualsIgnoreCase(name, "connection")) {
      close = close || ListHas(value, "close");
      keep = keep || ListHas(value, "keep-alive");
    } else if (EqualsIgnoreCase(name, "expect")) {
      if (!EqualsIgnoreCase(value, "100-continue")) {
        Bad(417, "Expect '" + value.substr(0, 40) + "' is not served");
        return false;
      }
      expect_continue_ = true;
    }
  }
  if (chunked_ && (length || http_1_0_)) {
    Bad(400, "Transfer-Encoding and Content-Length in one request");
    return false;
  }
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) {
    Bad(400, "an HTTP/1.1 request needs one Host header");
    return false;
  }
  if (length && *length > max_body_bytes_) {
    Bad(413, "the body is " + std::to_string(*length) + " bytes, at most " + std::to_string(max_body_bytes_) +
                 " are taken");
    return false;
  }
  keep_alive_ = http_1_0_ ? keep && !close : !close;
  body_left_ = length.value_or(0);
  state_ = chunked_ || body_left_ > 0 ? State::kBody : State::kDone;
  return true;
}

size_t RequestParser::FeedChunked(std::string_view input) {
  if (chunk_ == Chunk::kData) {
    size_t take = static_cast<size_t>(std::min<uint64_t>(body_left_, input.size()));
    request_.body.append(input.substr(0, take));
    body_left_ -= take;
    if (body_left_ == 0) chunk_ = Chunk::kDataEnd;
    return take;
  }
  // The other parts are lines.
  size_t newline = input.find('\n');
  size_t take = newline == std::string_view::npos ? input.size() : newline + 1;
  if (line_.size() + take > 4096) return Bad(400, "a chunk-size or trailer line longer than 4096 bytes");
  line_.append(input.substr(0, take));
  if (newline == std::string_view::npos) return take;
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') return Bad(400, "a chunk line ends without CRLF");
  std::string line = line_.substr(0, line_.size() - 2);
  line_.clear();
  if (chunk_ == Chunk::kDataEnd) {
    if (!line.empty()) return Bad(400, "a chunk is longer than its size");
    chunk_ = Chunk::kSize;
    return take;
  }
  if (chunk_ == Chunk::kTrailer) {
    trailer_bytes_ += line.size() + 2;
    if (trailer_bytes_ > kMaxHeadBytes) return Bad(431, "trailers longer than 64 KiB");
    if (line.empty()) state_ = State::kDone;
    return take;
  }
  std::string_view size = Trim(std::string_view(line).substr(0, line.find(';')));
  if (size.empty() || size.size() > 15) return Bad(400, "a chunk size that is no hexadecimal number");
  uint64_t value = 0;
  for (char c : size) {
    int digit = HexDigit(c);
    if (digit < 0) return Bad(400, "a chunk size that is no hexadecimal number");
    value = value * 16 + static_cast<uint64_t>(digit);
  }
  if (value > max_body_bytes_ || request_.body.size() + value > max_body_bytes_) {
    return Bad(413, "the body is longer than " + std::to_string(max_body_bytes_) + " bytes");
  }
  body_left_ = value;
  chunk_ = value == 0 ? Chunk::kTrailer : Chunk::kData;
  return take;
}

}  // namespace poolmark::http
