#include "common/results/requests_file.h"

#include <charconv>
#include <cstring>

#include "common/base/zstd_file.h"

namespace poolmark::results {
namespace {

// A strict cursor over one flat JSON object of texts, numbers, booleans, nulls and lists of numbers.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()), begin_(at_) {}

  void Space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool Take(char wanted) {
    Space();
    if (at_ >= end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  bool Done() {
    Space();
    return at_ == end_;
  }
  // The inside of a text, escapes as they stand.
  bool Text(std::string_view* out) {
    if (!Take('"')) return false;
    const char* start = at_;
    while (at_ < end_ && *at_ != '"') {
      if (static_cast<unsigned char>(*at_) < 0x20) return false;
      at_ += *at_ == '\\' ? 2 : 1;
    }
    if (at_ >= end_) return false;
    *out = std::string_view(start, static_cast<size_t>(at_ - start));
    ++at_;
    return true;
  }
  bool Whole(int64_t* out) {
    Space();
    const auto result = std::from_chars(at_, end_, *out);
    if (result.ec != std::errc() || result.ptr == at_) return false;
    const char next = result.ptr < end_ ? *result.ptr : ',';
    if (next == '.' || next == 'e' || next == 'E') return false;
    at_ = result.ptr;
    return true;
  }
  bool Word(std::string_view word) {
    Space();
    if (static_cast<size_t>(end_ - at_) < word.size() || std::memcmp(at_, word.data(), word.size()) != 0)
      return false;
    at_ += word.size();
    return true;
  }
  char peek() {
    Space();
    return at_ < end_ ? *at_ : '\0';
  }
  // Any value of the kinds above.
  bool Skip() {
    std::string_view text;
    int64_t number = 0;
    switch (peek()) {
      case '"':
        return Text(&text);
      case 't':
        return Word("true");
      case 'f':
        return Word("false");
      case 'n':
        return Word("null");
      case '[': {
        Take('[');
        if (Take(']')) return true;
        do {
          if (!Whole(&number)) return false;
        } while (Take(','));
        return Take(']');
      }
      default: {
        if (Whole(&number)) return true;
        double real = 0;
        const auto result = std::from_chars(at_, end_, real);
        if (result.ec != std::errc()) return false;
        at_ = result.ptr;
        return true;
      }
    }
  }
  size_t offset() const { return static_cast<size_t>(at_ - begin_); }

 private:
  const char* at_;
  const char* end_;
  const char* begin_;
};

struct Numbers {
  std::optional<int64_t> intended, sent, end, first_output, last_output, lateness, kernel_first_output, input,
      cached, output, first_tokens, session, turn;
  bool ok = false, connected = true, outcome_seen = false, counted = false, primer = false,
       events_seen = false;
};

std::optional<int64_t>* SlotOf(std::string_view key, Numbers* numbers) {
  switch (key.size()) {
    case 3:
      return key == "end" ? &numbers->end : nullptr;
    case 4:
      return key == "sent" ? &numbers->sent : key == "turn" ? &numbers->turn : nullptr;
    case 7:
      return key == "session" ? &numbers->session : nullptr;
    case 8:
      return key == "intended" ? &numbers->intended : key == "lateness" ? &numbers->lateness : nullptr;
    case 11:
      return key == "last_output" ? &numbers->last_output : nullptr;
    case 12:
      return key == "first_output"   ? &numbers->first_output
             : key == "input_tokens" ? &numbers->input
                                     : nullptr;
    case 13:
      return key == "cached_tokens" ? &numbers->cached : key == "output_tokens" ? &numbers->output : nullptr;
    case 18:
      return key == "first_event_tokens" ? &numbers->first_tokens : nullptr;
    case 19:
      return key == "kernel_first_output" ? &numbers->kernel_first_output : nullptr;
    default:
      return nullptr;
  }
}

bool ReadEvents(Cursor* cursor, stats::RequestFacts* out) {
  if (!cursor->Take('[')) return false;
  if (cursor->Take(']')) return true;
  int64_t at = 0, delta = 0;
  do {
    if (!cursor->Whole(&delta) || __builtin_add_overflow(at, delta, &at)) return false;
    out->events.emplace_back(static_cast<double>(at) / 1e9, 1u);
  } while (cursor->Take(','));
  return cursor->Take(']');
}

bool ReadTokens(Cursor* cursor, stats::RequestFacts* out) {
  if (!cursor->Take('[')) return false;
  size_t i = 0;
  if (cursor->Take(']')) return out->events.empty();
  int64_t tokens = 0;
  do {
    if (!cursor->Whole(&tokens) || tokens < 0 || tokens > UINT32_MAX || i >= out->events.size()) return false;
    out->events[i++].second = static_cast<uint32_t>(tokens);
  } while (cursor->Take(','));
  return cursor->Take(']') && i == out->events.size();
}

bool ReadField(std::string_view key, Cursor* cursor, Numbers* numbers, stats::RequestFacts* out) {
  if (std::optional<int64_t>* slot = SlotOf(key, numbers)) {
    if (cursor->peek() == 'n') return cursor->Word("null");
    int64_t value = 0;
    if (!cursor->Whole(&value)) return false;
    *slot = value;
    return true;
  }
  if (key == "outcome") {
    std::string_view text;
    if (!cursor->Text(&text)) return false;
    numbers->outcome_seen = true;
    numbers->ok = text == "ok";
    numbers->connected = text != "connect";
    return true;
  }
  if (key == "output_tokens_counted" || key == "primer") {
    bool* flag = key == "primer" ? &numbers->primer : &numbers->counted;
    *flag = cursor->peek() == 't';
    return cursor->Word(*flag ? "true" : "false");
  }
  if (key == "events") {
    numbers->events_seen = true;
    return ReadEvents(cursor, out);
  }
  if (key == "event_tokens") return ReadTokens(cursor, out);
  return cursor->Skip();
}

}  // namespace

Status ScanRequest(std::string_view line, const std::string& where, stats::RequestFacts* out,
                   uint64_t* session, uint32_t* turn, bool* connected) {
  auto events = std::move(out->events);
  events.clear();
  *out = {};
  out->events = std::move(events);
  Numbers numbers;
  Cursor cursor(line);
  bool good = cursor.Take('{');
  std::string_view key;
  if (good && !cursor.Take('}')) {
    do {
      good = cursor.Text(&key) && cursor.Take(':') && ReadField(key, &cursor, &numbers, out);
    } while (good && cursor.Take(','));
    good = good && cursor.Take('}');
  }
  if (!good || !cursor.Done()) {
    return InvalidInput(where, "is no request record: stopped at byte " + std::to_string(cursor.offset()) +
                                   (key.empty() ? "" : ", field '" + std::string(key.substr(0, 40)) + "'"));
  }
  for (const auto& [name, there] : {std::pair{"sent", numbers.sent.has_value()},
                                    {"end", numbers.end.has_value()},
                                    {"outcome", numbers.outcome_seen},
                                    {"events", numbers.events_seen}}) {
    if (!there)
      return InvalidInput(where, "is no request record: field '" + std::string(name) + "' is missing");
  }
  const auto seconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; };
  out->sent = seconds(*numbers.sent);
  out->start = seconds(numbers.intended.value_or(*numbers.sent));
  out->end = seconds(*numbers.end);
  if (numbers.intended) out->sent_late = seconds(*numbers.sent) - seconds(*numbers.intended);
  if (numbers.first_output) out->first_output = seconds(*numbers.first_output);
  if (numbers.last_output) out->last_output = seconds(*numbers.last_output);
  if (numbers.first_output && numbers.kernel_first_output) {
    out->lateness = std::max(0.0, seconds(*numbers.first_output) - seconds(*numbers.kernel_first_output));
  }
  out->input_tokens = numbers.input.value_or(-1);
  out->cached_tokens = numbers.cached.value_or(-1);
  out->output_tokens = numbers.output.value_or(0);
  out->first_event_tokens = numbers.first_tokens.value_or(1);
  out->counted = numbers.counted;
  out->ok = numbers.ok;
  out->primer = numbers.primer;
  if (session != nullptr) *session = static_cast<uint64_t>(numbers.session.value_or(0));
  if (turn != nullptr) *turn = static_cast<uint32_t>(numbers.turn.value_or(0));
  if (connected != nullptr) *connected = numbers.connected;
  return absl::OkStatus();
}

struct RequestsReader::State {
  std::string path;
  std::unique_ptr<LineReader> lines;
  std::string line;
  uint64_t session = 0;
  uint32_t turn = 0;
  bool connected = true;
};

RequestsReader::RequestsReader() : state_(std::make_unique<State>()) {}
RequestsReader::~RequestsReader() = default;

Result<std::unique_ptr<RequestsReader>> RequestsReader::Open(const std::string& path) {
  std::unique_ptr<RequestsReader> reader(new RequestsReader);
  reader->state_->path = path;
  POOLMARK_ASSIGN_OR_RETURN(reader->state_->lines, LineReader::Open(path));
  return reader;
}

Result<bool> RequestsReader::Next(stats::RequestFacts* request) {
  State& state = *state_;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, state.lines->Next(&state.line));
    if (!more) return false;
    if (state.line.empty()) continue;
    POOLMARK_RETURN_IF_ERROR(ScanRequest(state.line,
                                         state.path + ":" + std::to_string(state.lines->line_number()),
                                         request, &state.session, &state.turn, &state.connected));
    return true;
  }
}

uint64_t RequestsReader::session() const {
  return state_->session;
}
uint32_t RequestsReader::turn() const {
  return state_->turn;
}
bool RequestsReader::connected() const {
  return state_->connected;
}
uint64_t RequestsReader::line_number() const {
  return state_->lines->line_number();
}

}  // namespace poolmark::results
