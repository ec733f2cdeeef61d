#include "common/workload/trace_lines.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/json.h"

namespace poolmark::workload {
namespace {

constexpr double kMaxTraceSeconds = 1e9;

Status Bad(const std::string& where, const std::string& field, const std::string& problem) {
  return InvalidInput(where, field + " " + problem);
}

std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

Result<int64_t> Tokens(const Json& line, const char* field, int64_t low, const std::string& where) {
  const auto at = line.find(field);
  if (at == line.end()) return Bad(where, field, "is missing");
  if (!at->is_number_unsigned() && !at->is_number_integer())
    return Bad(where, field, "is " + Shown(*at) + ", must be a whole number");
  if (at->is_number_unsigned() && at->get<uint64_t>() > static_cast<uint64_t>(kMaxTokens)) {
    return Bad(where, field, "is " + Shown(*at) + ", more than " + std::to_string(kMaxTokens) + " tokens");
  }
  const auto value = at->get<int64_t>();
  if (value < low)
    return Bad(where, field, "is " + std::to_string(value) + ", must be at least " + std::to_string(low));
  return value;
}

Result<Nanoseconds> Time(const Json& line, double unit_seconds, const std::string& where) {
  const auto at = line.find("timestamp");
  if (at == line.end()) return Bad(where, "timestamp", "is missing");
  if (!at->is_number()) return Bad(where, "timestamp", "is " + Shown(*at) + ", must be a number");
  const double seconds = at->get<double>() * unit_seconds;
  if (!(seconds >= 0) || seconds > kMaxTraceSeconds)
    return Bad(where, "timestamp", "is " + Shown(*at) + ", out of range");
  return Nanoseconds(std::llround(seconds * 1e9));
}

std::vector<std::string_view> Cells(std::string_view text) {
  std::vector<std::string_view> cells;
  for (;;) {
    const size_t comma = text.find(',');
    std::string_view cell = text.substr(0, comma);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"')) cell.remove_suffix(1);
    cells.push_back(cell);
    if (comma == std::string_view::npos) return cells;
    text.remove_prefix(comma + 1);
  }
}

Result<int64_t> CellTokens(std::string_view cell, const char* field, int64_t low, const std::string& where) {
  double value = 0;  // some files write 472.0
  const auto end = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end.ec != std::errc() || end.ptr != cell.data() + cell.size() || value != std::floor(value)) {
    return Bad(where, field, "is '" + std::string(cell.substr(0, 40)) + "', must be a whole number");
  }
  if (value < static_cast<double>(low) || value > static_cast<double>(kMaxTokens)) {
    return Bad(where, field,
               "is " + std::string(cell) + ", must be from " + std::to_string(low) + " to " +
                   std::to_string(kMaxTokens));
  }
  return static_cast<int64_t>(value);
}

bool Digits(std::string_view text, size_t at, size_t count, int* out) {
  if (at + count > text.size()) return false;
  *out = 0;
  for (size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    *out = *out * 10 + (text[i] - '0');
  }
  return true;
}

// "2023-11-16 18:17:03.9799600", with an optional "+00:00" at the end. Seven digits and more are kept
// exactly.
Result<Nanoseconds> CalendarTime(std::string_view text, const std::string& where) {
  const auto bad = [&] {
    return Bad(where, "TIMESTAMP",
               "is '" + std::string(text.substr(0, 40)) + "', must be like 2023-11-16 18:17:03.9799600");
  };
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  const bool good = Digits(text, 0, 4, &year) && Digits(text, 5, 2, &month) && Digits(text, 8, 2, &day) &&
                    Digits(text, 11, 2, &hour) && Digits(text, 14, 2, &minute) &&
                    Digits(text, 17, 2, &second) && text[4] == '-' && text[7] == '-' &&
                    (text[10] == ' ' || text[10] == 'T') && text[13] == ':' && text[16] == ':';
  if (!good || hour > 23 || minute > 59 || second > 60) return bad();
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  // 64 bits of nanoseconds reach from 1677 to 2262.
  if (!date.ok() || year < 1970 || year > 2261) return bad();
  int64_t nanos = 0;
  size_t at = 19;
  if (at < text.size() && text[at] == '.') {
    int64_t unit = 100'000'000;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, unit /= 10)
      nanos += unit * (text[at] - '0');
  }
  const std::string_view zone = text.substr(at);
  if (!zone.empty() && zone != "Z" && zone != "+00:00" && zone != "+0000") return bad();
  const auto days = std::chrono::sys_days(date).time_since_epoch();
  return std::chrono::duration_cast<Nanoseconds>(days) + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + std::chrono::seconds(second) + Nanoseconds(nanos);
}

}  // namespace

Result<std::optional<TraceLine>> TraceLineReader::Read(std::string_view text, uint64_t number) {
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  if (number == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.find_first_not_of(" \t") == std::string_view::npos) return std::nullopt;
  const std::string where = file_ + ":" + std::to_string(number);
  const bool json = format_ == TraceFormat::kMooncake || format_ == TraceFormat::kQwenBailian;
  return json ? ReadJson(text, where) : ReadCsv(text, where);
}

Result<std::optional<TraceLine>> TraceLineReader::ReadJson(std::string_view text, const std::string& where) {
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, where));
  if (!json.is_object()) return InvalidInput(where, "is " + Shown(json) + ", must be an object");
  const bool bailian = format_ == TraceFormat::kQwenBailian;
  TraceLine line;
  POOLMARK_ASSIGN_OR_RETURN(line.at, Time(json, bailian ? 1.0 : 1e-3, where));
  POOLMARK_ASSIGN_OR_RETURN(line.input_tokens, Tokens(json, "input_length", 1, where));
  POOLMARK_ASSIGN_OR_RETURN(line.output_tokens, Tokens(json, "output_length", 0, where));
  const auto ids = json.find("hash_ids");
  if (ids == json.end()) return Bad(where, "hash_ids", "is missing");
  if (!ids->is_array()) return Bad(where, "hash_ids", "is " + Shown(*ids) + ", must be a list of block ids");
  line.blocks.reserve(ids->size());
  for (const Json& id : *ids) {
    if (!id.is_number_unsigned())
      return Bad(where, "hash_ids", "holds " + Shown(id) + ", must be whole numbers from 0");
    line.blocks.push_back(id.get<uint64_t>());
  }
  if (bailian) {
    const auto chat = json.find("chat_id");
    if (chat == json.end() || !chat->is_number_integer())
      return Bad(where, "chat_id", "is missing or no whole number");
    line.chat = "chat" + std::to_string(chat->get<int64_t>());
  }
  return line;
}

Status TraceLineReader::ReadHeader(const std::vector<std::string_view>& cells, const std::string& where) {
  const bool burst = format_ == TraceFormat::kBurstGpt;
  const std::string_view names[] = {burst ? "Timestamp" : "TIMESTAMP",
                                    burst ? "Request tokens" : "ContextTokens",
                                    burst ? "Response tokens" : "GeneratedTokens", "Session ID"};
  columns_.assign(4, -1);
  for (size_t i = 0; i < cells.size(); ++i) {
    for (size_t k = 0; k < 4; ++k) {
      if (cells[i] == names[k]) columns_[k] = static_cast<int>(i);
    }
  }
  for (size_t k = 0; k < 3; ++k) {
    if (columns_[k] < 0)
      return InvalidInput(where, "has no column '" + std::string(names[k]) + "'",
                          "the first line must be the trace's own header");
  }
  return absl::OkStatus();
}

Result<std::optional<TraceLine>> TraceLineReader::ReadCsv(std::string_view text, const std::string& where) {
  const auto cells = Cells(text);
  if (columns_.empty()) {
    POOLMARK_RETURN_IF_ERROR(ReadHeader(cells, where));
    return std::nullopt;
  }
  const auto cell = [&](int column) {
    return column >= 0 && static_cast<size_t>(column) < cells.size() ? cells[static_cast<size_t>(column)]
                                                                     : std::string_view();
  };
  TraceLine line;
  const bool burst = format_ == TraceFormat::kBurstGpt;
  if (burst) {
    double seconds = -1;
    const auto text_cell = cell(columns_[0]);
    const auto end = std::from_chars(text_cell.data(), text_cell.data() + text_cell.size(), seconds);
    if (end.ec != std::errc() || end.ptr != text_cell.data() + text_cell.size() || !(seconds >= 0) ||
        seconds > kMaxTraceSeconds) {
      return Bad(where, "Timestamp",
                 "is '" + std::string(text_cell.substr(0, 40)) + "', must be seconds from 0");
    }
    line.at = Nanoseconds(std::llround(seconds * 1e9));
    if (!cell(columns_[3]).empty()) line.chat = "session" + std::string(cell(columns_[3]).substr(0, 64));
  } else {
    POOLMARK_ASSIGN_OR_RETURN(line.at, CalendarTime(cell(columns_[0]), where));
  }
  POOLMARK_ASSIGN_OR_RETURN(
      line.input_tokens,
      CellTokens(cell(columns_[1]), burst ? "Request tokens" : "ContextTokens", burst ? 0 : 1, where));
  POOLMARK_ASSIGN_OR_RETURN(
      line.output_tokens,
      CellTokens(cell(columns_[2]), burst ? "Response tokens" : "GeneratedTokens", 0, where));
  line.failed = burst && (line.output_tokens == 0 || line.input_tokens == 0);
  return line;
}

}  // namespace poolmark::workload
