#include "common/load/record_scan.h"

#include <cstring>

namespace poolmark::load {
namespace {

// Steps through a line, piece by expected piece. Each step says whether the piece was there.
class Scanner {
 public:
  explicit Scanner(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  template <size_t kSize>
  bool Take(const char (&text)[kSize]) {
    constexpr size_t kLength = kSize - 1;
    if (static_cast<size_t>(end_ - at_) < kLength || std::memcmp(at_, text, kLength) != 0) return false;
    at_ += kLength;
    return true;
  }
  bool Number(int64_t* out) {
    const bool negative = Take("-");
    uint64_t value = 0;
    if (!Digits(&value) || (negative && value == 0)) return false;
    *out = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
    return true;
  }
  bool Number(std::optional<int64_t>* out) {
    if (Take("null")) {
      out->reset();
      return true;
    }
    int64_t value = 0;
    if (!Number(&value)) return false;
    *out = value;
    return true;
  }
  template <class Small>
  bool Count(Small* out, uint64_t largest = INT32_MAX) {
    uint64_t value = 0;
    if (!Digits(&value) || value > largest) return false;
    *out = static_cast<Small>(value);
    return true;
  }
  bool Bool(bool* out) {
    *out = Take("true");
    return *out || Take("false");
  }
  bool Text(std::string_view* out) {
    const char* const start = at_ + 1;
    if (!Take("\"")) return false;
    while (at_ < end_ && *at_ >= 0x20 && *at_ < 0x7f && *at_ != '"' && *at_ != '\\') ++at_;
    *out = {start, static_cast<size_t>(at_ - start)};
    return Take("\"");
  }
  bool Text(std::string* out) {
    std::string_view text;
    if (!Text(&text)) return false;
    out->assign(text);
    return true;
  }
  bool Events(std::vector<OutputEvent>* out) {
    out->clear();
    if (!Take("[")) return false;
    if (Take("]")) return true;
    int64_t at = 0, delta = 0;
    do {
      if (!Number(&delta) || __builtin_add_overflow(at, delta, &at)) return false;
      out->push_back({at, 1});
    } while (Take(","));
    return Take("]");
  }
  bool EventTokens(std::vector<OutputEvent>* out) {
    if (!Take("[")) return false;
    bool first = true;
    for (OutputEvent& event : *out) {
      if ((!first && !Take(",")) || !Count(&event.tokens, UINT32_MAX)) return false;
      first = false;
    }
    return Take("]");
  }
  bool done() const { return at_ == end_; }

 private:
  // As JSON has them: no zero before another digit. At most 18, which 64 bits surely hold.
  bool Digits(uint64_t* out) {
    const char* const start = at_;
    const char* const last = end_ - at_ > 18 ? at_ + 18 : end_;
    uint64_t value = 0;
    while (at_ < last && *at_ >= '0' && *at_ <= '9') value = value * 10 + static_cast<uint64_t>(*at_++ - '0');
    if (at_ == start || (*start == '0' && at_ - start > 1)) return false;
    *out = value;
    return true;
  }

  const char* at_;
  const char* end_;
};

bool HowItEnded(Scanner& scan, RequestRecord* out) {
  std::string_view outcome;
  if (!scan.Take(",\"outcome\":") || !scan.Text(&outcome)) return false;
  const std::optional<Outcome> known = OutcomeOf(outcome);
  if (known.has_value()) out->outcome = *known;
  return known.has_value() && scan.Take(",\"status\":") && scan.Count(&out->http_status) &&
         scan.Take(",\"attempts\":") && scan.Count(&out->attempts);
}

bool Times(Scanner& scan, RequestRecord* out) {
  return scan.Take(",\"intended\":") && scan.Number(&out->intended) &&  //
         scan.Take(",\"started\":") && scan.Number(&out->started) &&    //
         scan.Take(",\"sent\":") && scan.Number(&out->sent) &&          //
         scan.Take(",\"connect\":") && scan.Number(&out->connect) && scan.Take(",\"first_byte\":") &&
         scan.Number(&out->first_byte) && scan.Take(",\"first_output\":") &&
         scan.Number(&out->first_output) && scan.Take(",\"first_answer_output\":") &&
         scan.Number(&out->first_answer_output) && scan.Take(",\"last_output\":") &&
         scan.Number(&out->last_output) && scan.Take(",\"end\":") && scan.Number(&out->end) &&  //
         scan.Take(",\"kernel_first_output\":") && scan.Number(&out->kernel_first_output) &&
         scan.Take(",\"kernel_last_output\":") && scan.Number(&out->kernel_last_output) &&
         scan.Take(",\"lateness\":") && scan.Number(&out->lateness);
}

bool Tokens(Scanner& scan, RequestRecord* out) {
  return scan.Take(",\"planned_input_tokens\":") && scan.Number(&out->planned_input_tokens) &&
         scan.Take(",\"input_tokens\":") && scan.Number(&out->input_tokens) &&
         scan.Take(",\"cached_tokens\":") && scan.Number(&out->cached_tokens) &&
         scan.Take(",\"output_tokens\":") && scan.Number(&out->output_tokens) &&
         scan.Take(",\"output_tokens_counted\":") && scan.Bool(&out->output_tokens_counted) &&
         scan.Take(",\"first_event_tokens\":") && scan.Count(&out->first_event_tokens) &&
         scan.Take(",\"event_tokens_known\":") && scan.Bool(&out->event_tokens_known);
}

}  // namespace

bool ScanRecord(std::string_view line, RequestRecord* record) {
  record->Clear();
  Scanner scan(line);
  bool good = scan.Take("{\"session\":") && scan.Count(&record->session, INT64_MAX) &&
              scan.Take(",\"turn\":") && scan.Count(&record->turn) &&  //
              scan.Take(",\"id\":") && scan.Text(&record->session_id);
  if (good && scan.Take(",\"agent\":")) good = scan.Text(&record->agent);
  if (good && scan.Take(",\"primer\":")) good = scan.Bool(&record->primer);
  good = good && scan.Take(",\"target\":") && scan.Count(&record->target) && HowItEnded(scan, record) &&
         Times(scan, record) && Tokens(scan, record) && scan.Take(",\"finish_reason\":") &&
         scan.Text(&record->finish_reason);
  if (good && scan.Take(",\"error\":")) good = scan.Text(&record->error);
  good = good && scan.Take(",\"events\":") && scan.Events(&record->events);
  if (good && scan.Take(",\"event_tokens\":")) good = scan.EventTokens(&record->events);
  return good && scan.Take("}") && scan.done();
}

}  // namespace poolmark::load
