#include "common/load/stream.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "common/base/json.h"

namespace poolmark::load {
namespace {

// Enough for any error object; the rest of a failed answer's body is read and dropped.
constexpr size_t kMaxPlainBody = 64 * 1024;
constexpr size_t kMaxError = 500;

bool ContainsIgnoringCase(std::string_view text, std::string_view lower) {
  const auto it = std::search(text.begin(), text.end(), lower.begin(), lower.end(),
                              [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  return it != text.end();
}

// The value of a header of a raw head, "" when absent. `name` is lower case with its colon, after a line end.
std::string_view RawHeader(std::string_view head, std::string_view name) {
  const auto it = std::search(head.begin(), head.end(), name.begin(), name.end(),
                              [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  if (it == head.end()) return {};
  std::string_view value = head.substr(static_cast<size_t>(it - head.begin()) + name.size());
  value = value.substr(0, value.find_first_of("\r\n"));
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

}  // namespace

void StreamReader::Begin(RequestRecord* record, std::string* answer, size_t most_events) {
  parser_.Reset();
  sse_.Reset();
  chunks_.Reset();
  record_ = record;
  answer_ = answer;
  plain_body_.clear();
  body_ = Body::kEvents;
  kernel_.reset();
  last_usage_ = 0;
  event_tokens_ = true;
  most_events_ = most_events;
  too_long_ = false;
  done_ = finished_ = complete_ = cut_ = ended_ = failed_ = absurd_usage_ = false;
}

StreamReader::State StreamReader::Feed(std::string_view bytes, int64_t now, std::optional<int64_t> kernel) {
  now_ = now;
  kernel_ = kernel;
  if (!record_->first_byte.has_value() && !bytes.empty()) record_->first_byte = now;
  if (kernel.has_value()) record_->lateness = std::max(record_->lateness.value_or(0), now - *kernel);
  std::string_view piece;
  for (;;) {
    switch (parser_.Next(&bytes, &piece)) {
      case http::ResponseParser::Step::kNeedMore:
        return done_ ? State::kDone : State::kReading;
      case http::ResponseParser::Step::kHead:
        TakeHead();
        break;
      case http::ResponseParser::Step::kBody:
        TakeBody(piece);
        if (too_long_) {
          Finish(now);
          return State::kEnded;
        }
        break;
      case http::ResponseParser::Step::kDone:
        // Bytes after the answer belong to nothing that was asked.
        complete_ = bytes.empty();
        Finish(now);
        return State::kEnded;
      case http::ResponseParser::Step::kError:
        if (record_->http_status == 0) record_->http_status = parser_.status();
        Fail(Outcome::kProtocol, parser_.error());
        Finish(now);
        return State::kEnded;
    }
  }
}

void StreamReader::TakeHead() {
  record_->http_status = parser_.status();
  if (parser_.status() < 200 || parser_.status() > 299) {
    body_ = Body::kFailure;
    return;
  }
  const std::string_view type = RawHeader(parser_.head(), "\ncontent-type:");
  body_ = ContainsIgnoringCase(type, "application/json") ? Body::kJson : Body::kEvents;
}

void StreamReader::TakeBody(std::string_view piece) {
  if (body_ != Body::kEvents) {
    plain_body_.append(piece.substr(0, kMaxPlainBody - std::min(kMaxPlainBody, plain_body_.size())));
    return;
  }
  if (!sse_.Feed(piece, [this](const http::SseEvent& event) { TakeEvent(event); })) {
    Fail(Outcome::kProtocol, "an event is larger than 16 MiB");
  }
}

void StreamReader::TakeEvent(const http::SseEvent& event) {
  if (done_ || failed_) return;
  if (event.name == "error") {
    const std::string_view text = event.data.empty() ? event.comment : event.data;
    return Fail(Outcome::kErrorEvent, text.empty() ? "event: error" : http::ErrorText(text));
  }
  if (event.data.empty()) return;
  const http::Chunk& chunk = chunks_.Read(event.data, answer_);
  // An event with a name that the API does not have, as gateways send to keep connections alive (`event:
  // ping`). Broken JSON is none of these: output may have been in it.
  const bool foreign = !event.name.empty() && event.name != "message";
  const size_t begin = event.data.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string_view::npos && (event.data[begin] == '{' || event.data[begin] == '[');
  if (foreign && !json && chunk.kind == http::Chunk::Kind::kMalformed) return;
  TakeChunk(chunk);
}

void StreamReader::TakeChunk(const http::Chunk& chunk) {
  switch (chunk.kind) {
    case http::Chunk::Kind::kDone:
      done_ = true;
      return;
    case http::Chunk::Kind::kError:
      return Fail(Outcome::kErrorEvent, chunk.error);
    case http::Chunk::Kind::kMalformed:
      if (cut_) return Fail(Outcome::kTruncated, "the connection closed within an event");
      return Fail(Outcome::kProtocol, "an event's data is no JSON object");
    case http::Chunk::Kind::kData:
      break;
  }
  absurd_usage_ = absurd_usage_ || chunk.absurd_count;
  if (chunk.prompt_tokens.has_value()) record_->input_tokens = chunk.prompt_tokens;
  if (chunk.cached_tokens.has_value()) record_->cached_tokens = chunk.cached_tokens;
  if (chunk.completion_tokens.has_value()) record_->output_tokens = chunk.completion_tokens;
  if (chunk.output) TakeOutput(chunk);
  if (chunk.finished) {
    finished_ = true;
    if (chunk.finish_reason == "error" || chunk.finish_reason == "abort") {
      Fail(Outcome::kErrorEvent, "finish_reason '" + chunk.finish_reason + "'");
    }
    record_->finish_reason = chunk.finish_reason;
  }
}

void StreamReader::TakeOutput(const http::Chunk& chunk) {
  RequestRecord& record = *record_;
  if (!record.first_output.has_value()) {
    record.first_output = now_;
    record.kernel_first_output = kernel_;
  }
  if (chunk.answer && !record.first_answer_output.has_value()) record.first_answer_output = now_;
  record.last_output = now_;
  record.kernel_last_output = kernel_;
  int64_t tokens = 1;
  if (event_tokens_) {
    if (chunk.token_ids.has_value()) {
      tokens = *chunk.token_ids;
    } else if (chunk.completion_tokens.has_value() && *chunk.completion_tokens >= last_usage_) {
      tokens = *chunk.completion_tokens - last_usage_;
      last_usage_ = *chunk.completion_tokens;
    } else {
      event_tokens_ = false;
    }
  }
  if (record.events.size() >= most_events_) {
    too_long_ = true;
    return Fail(Outcome::kProtocol, "more than " + std::to_string(most_events_) +
                                        " output events, far beyond the max_tokens that were asked for");
  }
  record.events.push_back({now_, static_cast<uint32_t>(std::clamp<int64_t>(tokens, 0, 1'000'000))});
}

void StreamReader::Fail(Outcome outcome, std::string error) {
  if (failed_) return;  // the first failure is the cause
  failed_ = true;
  record_->outcome = outcome;
  if (error.size() > kMaxError) error.resize(kMaxError);
  record_->error = std::move(error);
}

void StreamReader::Closed(int64_t now, std::string_view error) {
  now_ = now;
  if (ended_) return;
  if (done_) return Finish(now);  // all was said: however the connection ends
  if (!error.empty()) {
    Fail(Outcome::kReset, std::string(error));
  } else if (parser_.Closed() == http::ResponseParser::Step::kError) {
    Fail(answered() ? Outcome::kTruncated : Outcome::kReset, parser_.error());
  }
  cut_ = true;  // no length and no last chunk said where the answer ends
  Finish(now);
}

void StreamReader::Abort(Outcome outcome, int64_t now, std::string error) {
  if (ended_) return;
  now_ = now;
  if (!done_) Fail(outcome, std::move(error));
  Finish(now);
}

void StreamReader::Finish(int64_t now) {
  if (ended_) return;
  RequestRecord& record = *record_;
  if (body_ == Body::kEvents && !failed_) {
    sse_.End([this](const http::SseEvent& event) { TakeEvent(event); });
  }
  ended_ = true;
  record.end = now;
  if (!failed_) {
    if (body_ == Body::kFailure) {
      Fail(Outcome::kHttpStatus,
           plain_body_.empty() ? "an answer without a body" : http::ErrorText(plain_body_));
    } else if (body_ == Body::kJson) {
      const http::Chunk chunk = http::ReadChunkWithTree(plain_body_);
      if (chunk.kind == http::Chunk::Kind::kError) {
        Fail(Outcome::kErrorEvent, chunk.error);
      } else {
        Fail(Outcome::kProtocol, "the answer is one JSON document, no stream of events");
      }
    } else if (!done_ && !finished_ && !record.events.empty()) {
      Fail(Outcome::kTruncated, "the stream ended without [DONE] or a finish_reason");
    } else if (record.events.empty()) {
      Fail(Outcome::kNoOutput, "the stream ended without any output");
    }
  }
  FinishTokens();
}

void StreamReader::FinishTokens() {
  RequestRecord& record = *record_;
  if (record.events.empty()) return;
  // A usage that counts nothing where something came is none.
  if (record.output_tokens.has_value() && *record.output_tokens <= 0) {
    record.output_tokens.reset();
    event_tokens_ = false;
  }
  record.event_tokens_known = event_tokens_;
  if (!event_tokens_) {
    for (OutputEvent& event : record.events) event.tokens = 1;
  }
  if (!record.output_tokens.has_value()) {
    int64_t sum = 0;
    for (const OutputEvent& event : record.events) sum += event.tokens;
    record.output_tokens = sum;
    record.output_tokens_counted = true;
  }
  if (event_tokens_) {
    record.first_event_tokens = std::max(1u, record.events.front().tokens);
  } else {
    const double mean =
        static_cast<double>(*record.output_tokens) / static_cast<double>(record.events.size());
    record.first_event_tokens = static_cast<uint32_t>(std::max(1.0, std::round(mean)));
  }
}

std::optional<int64_t> StreamReader::retry_after_seconds() const {
  const std::string_view value = RawHeader(parser_.head(), "\nretry-after:");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  const bool whole =
      std::string_view(end, value.data() + value.size()).find_first_not_of(" \t") == std::string_view::npos;
  if (value.empty() || !whole || seconds < 0 || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range && value.front() == '-') return std::nullopt;
  return error == std::errc() ? seconds : std::numeric_limits<int64_t>::max();
}

}  // namespace poolmark::load
