#include "common/load/record_codec.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/zstd_file.h"
#include "common/load/record_scan.h"

namespace poolmark::load {
namespace {

class LineWriter {
 public:
  explicit LineWriter(std::string* out) : out_(*out) {}

  void Number(std::string_view key, int64_t value) {
    Key(key);
    Digits(value);
  }
  void Number(std::string_view key, const std::optional<int64_t>& value) {
    Key(key);
    if (value.has_value()) {
      Digits(*value);
    } else {
      out_ += "null";
    }
  }
  void Bool(std::string_view key, bool value) {
    Key(key);
    out_ += value ? "true" : "false";
  }
  void Text(std::string_view key, std::string_view value) {
    Key(key);
    out_ += '"';
    bool plain = true;
    for (const char c : value) plain = plain && c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    if (plain) {
      out_.append(value);
    } else {
      Escaped(ValidUtf8(value));
    }
    out_ += '"';
  }
  void Events(const std::vector<OutputEvent>& events) {
    Key("events");
    out_ += '[';
    int64_t before = 0;
    bool all_ones = true;
    for (size_t i = 0; i < events.size(); ++i) {
      if (i > 0) out_ += ',';
      Digits(events[i].at - before);
      before = events[i].at;
      all_ones = all_ones && events[i].tokens == 1;
    }
    out_ += ']';
    if (all_ones) return;
    Key("event_tokens");
    out_ += '[';
    for (size_t i = 0; i < events.size(); ++i) {
      if (i > 0) out_ += ',';
      Digits(events[i].tokens);
    }
    out_ += ']';
  }
  void End() { out_ += "}\n"; }

 private:
  void Key(std::string_view key) {
    out_ += first_ ? "{\"" : ",\"";
    first_ = false;
    out_.append(key);
    out_ += "\":";
  }
  void Digits(int64_t value) {
    char buffer[24];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    out_.append(buffer, end);
  }
  void Escaped(std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out_ += "\\u00";
        out_ += kHex[c >> 4];
        out_ += kHex[c & 15];
      } else {
        out_ += c;
      }
    }
  }

  std::string& out_;
  bool first_ = true;
};

// Reads fields of one object; the first problem is kept.
class FieldReader {
 public:
  FieldReader(const Json& json, std::string_view where) : json_(json), where_(where) {}

  void Number(const char* key, int64_t* out) {
    const Json* value = Find(key);
    if (value == nullptr || !IsInteger(*value)) return Problem(key, "an integer");
    *out = value->get<int64_t>();
  }
  template <class Small>
  void Small_(const char* key, Small* out) {
    int64_t value = 0;
    Number(key, &value);
    if (value < 0 || value > INT32_MAX) return Problem(key, "an integer from 0 to 2147483647");
    *out = static_cast<Small>(value);
  }
  void Number(const char* key, std::optional<int64_t>* out) {
    const Json* value = Find(key);
    if (value == nullptr || value->is_null()) return;
    if (!IsInteger(*value)) return Problem(key, "an integer or null");
    *out = value->get<int64_t>();
  }
  void Bool(const char* key, bool* out) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_boolean()) return Problem(key, "true or false");
    *out = value->get<bool>();
  }
  void Text(const char* key, std::string* out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return Problem(key, "a string");
    *out = value->get<std::string>();
  }
  void Events(std::vector<OutputEvent>* out) {
    const Json* deltas = Find("events");
    if (deltas == nullptr || !deltas->is_array()) return Problem("events", "an array of integers");
    const Json* tokens = Find("event_tokens");
    if (tokens != nullptr && (!tokens->is_array() || tokens->size() != deltas->size())) {
      return Problem("event_tokens", "as long as 'events'");
    }
    int64_t at = 0;
    for (size_t i = 0; i < deltas->size(); ++i) {
      const Json& delta = (*deltas)[i];
      if (!IsInteger(delta) || __builtin_add_overflow(at, delta.get<int64_t>(), &at))
        return Problem("events", "an array of integers");
      OutputEvent event{at, 1};
      if (tokens != nullptr) {
        const Json& count = (*tokens)[i];
        if (!count.is_number_unsigned() || count.get<uint64_t>() > UINT32_MAX)
          return Problem("event_tokens", "an array of counts");
        event.tokens = count.get<uint32_t>();
      }
      out->push_back(event);
    }
  }
  void Problem(const char* key, const char* expected) {
    if (status_.ok()) status_ = InvalidInput(where_, std::string("field '") + key + "' is not " + expected);
  }
  const Status& status() const { return status_; }

 private:
  // One that 64 bits hold with its sign.
  static bool IsInteger(const Json& json) {
    return json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX);
  }
  const Json* Find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() ? nullptr : &*it;
  }

  const Json& json_;
  std::string where_;
  Status status_;
};

// Any form that JSON allows.
Result<RequestRecord> ParseTree(std::string_view text, std::string_view where) {
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, where));
  if (!json.is_object()) return InvalidInput(std::string(where), "a record is a JSON object");
  RequestRecord record;
  FieldReader fields(json, where);
  int64_t session = 0;
  std::string outcome;
  fields.Number("session", &session);
  if (session < 0) fields.Problem("session", "0 or more");
  record.session = static_cast<uint64_t>(session);
  fields.Small_("turn", &record.turn);
  fields.Text("id", &record.session_id);
  fields.Text("agent", &record.agent);
  if (json.contains("primer")) fields.Bool("primer", &record.primer);
  fields.Small_("target", &record.target);
  fields.Text("outcome", &outcome);
  fields.Small_("status", &record.http_status);
  fields.Small_("attempts", &record.attempts);
  fields.Number("intended", &record.intended);
  fields.Number("started", &record.started);
  fields.Number("sent", &record.sent);
  fields.Number("connect", &record.connect);
  fields.Number("first_byte", &record.first_byte);
  fields.Number("first_output", &record.first_output);
  fields.Number("first_answer_output", &record.first_answer_output);
  fields.Number("last_output", &record.last_output);
  fields.Number("end", &record.end);
  fields.Number("kernel_first_output", &record.kernel_first_output);
  fields.Number("kernel_last_output", &record.kernel_last_output);
  fields.Number("lateness", &record.lateness);
  fields.Number("planned_input_tokens", &record.planned_input_tokens);
  fields.Number("input_tokens", &record.input_tokens);
  fields.Number("cached_tokens", &record.cached_tokens);
  fields.Number("output_tokens", &record.output_tokens);
  fields.Bool("output_tokens_counted", &record.output_tokens_counted);
  fields.Small_("first_event_tokens", &record.first_event_tokens);
  fields.Bool("event_tokens_known", &record.event_tokens_known);
  fields.Text("finish_reason", &record.finish_reason);
  fields.Text("error", &record.error);
  fields.Events(&record.events);
  const std::optional<Outcome> known = OutcomeOf(outcome);
  if (!known.has_value()) fields.Problem("outcome", ("a known outcome: '" + outcome + "'").c_str());
  POOLMARK_RETURN_IF_ERROR(fields.status());
  record.outcome = *known;
  return record;
}

// What no load leaves behind, and figures could not be made of; nullptr: it can have been so.
const char* Impossible(const RequestRecord& record) {
  constexpr int64_t kLongest = int64_t{1} << 60;  // 36 years; differences stay within 64 bits
  const auto far = [](const std::optional<int64_t>& time) {
    return time.has_value() && (*time > kLongest || *time < -kLongest);
  };
  bool all_near = true;
  for (const auto& time :
       {record.intended, std::optional(record.started), std::optional(record.sent), record.connect,
        record.first_byte, record.first_output, record.first_answer_output, record.last_output,
        std::optional(record.end), record.kernel_first_output, record.kernel_last_output, record.lateness})
    all_near = all_near && !far(time);
  for (const OutputEvent& event : record.events) all_near = all_near && !far(event.at);
  if (!all_near) return "a time is further away than a load can last";
  if (record.first_output.has_value() != record.last_output.has_value())
    return "of 'first_output' and 'last_output' only one is there";
  if (record.outcome == Outcome::kOk && !record.first_output.has_value())
    return "'outcome' is ok, but there was no output";
  return nullptr;
}

}  // namespace

void AppendRecord(const RequestRecord& record, std::string* out) {
  LineWriter line(out);
  line.Number("session", static_cast<int64_t>(record.session));
  line.Number("turn", record.turn);
  line.Text("id", record.session_id);
  if (!record.agent.empty()) line.Text("agent", record.agent);
  if (record.primer) line.Bool("primer", true);
  line.Number("target", record.target);
  line.Text("outcome", OutcomeName(record.outcome));
  line.Number("status", record.http_status);
  line.Number("attempts", record.attempts);
  line.Number("intended", record.intended);
  line.Number("started", record.started);
  line.Number("sent", record.sent);
  line.Number("connect", record.connect);
  line.Number("first_byte", record.first_byte);
  line.Number("first_output", record.first_output);
  line.Number("first_answer_output", record.first_answer_output);
  line.Number("last_output", record.last_output);
  line.Number("end", record.end);
  line.Number("kernel_first_output", record.kernel_first_output);
  line.Number("kernel_last_output", record.kernel_last_output);
  line.Number("lateness", record.lateness);
  line.Number("planned_input_tokens", record.planned_input_tokens);
  line.Number("input_tokens", record.input_tokens);
  line.Number("cached_tokens", record.cached_tokens);
  line.Number("output_tokens", record.output_tokens);
  line.Bool("output_tokens_counted", record.output_tokens_counted);
  line.Number("first_event_tokens", record.first_event_tokens);
  line.Bool("event_tokens_known", record.event_tokens_known);
  line.Text("finish_reason", record.finish_reason);
  if (!record.error.empty()) line.Text("error", record.error);
  line.Events(record.events);
  line.End();
}

Result<RequestRecord> ParseRecord(std::string_view line, std::string_view where) {
  RequestRecord record;
  if (!ScanRecord(line, &record)) {
    POOLMARK_ASSIGN_OR_RETURN(record, ParseTree(line, where));
  }
  if (const char* const why = Impossible(record)) return InvalidInput(std::string(where), why);
  return record;
}

struct RecordReader::State {
  std::string path;
  std::unique_ptr<LineReader> lines;
  std::string line;
};

RecordReader::RecordReader() : state_(std::make_unique<State>()) {}
RecordReader::~RecordReader() = default;

Result<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path) {
  std::unique_ptr<RecordReader> reader(new RecordReader);
  reader->state_->path = path;
  POOLMARK_ASSIGN_OR_RETURN(reader->state_->lines, LineReader::Open(path));
  return reader;
}

Result<bool> RecordReader::Next(RequestRecord* record) {
  State& state = *state_;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, state.lines->Next(&state.line));
    if (!more) return false;
    if (state.line.empty()) continue;
    if (ScanRecord(state.line, record) && Impossible(*record) == nullptr) return true;
    POOLMARK_ASSIGN_OR_RETURN(
        *record, ParseRecord(state.line, state.path + ":" + std::to_string(state.lines->line_number())));
    return true;
  }
}

Result<std::vector<RequestRecord>> ReadRecords(const std::string& path) {
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path));
  std::vector<RequestRecord> records;
  RequestRecord record;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) return records;
    records.push_back(std::move(record));
  }
}

}  // namespace poolmark::load
