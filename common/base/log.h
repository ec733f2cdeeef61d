// Structured log to stderr: one line per event, JSON when stderr is no terminal or POOLMARK_LOG=json.
// An event is a name and key=value pairs: Log(kInfo, "job.state", {{"job", id}, {"state", name}}).
// Control characters are escaped. Thread-safe.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace poolmark {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  template <class Number>
  requires(std::is_arithmetic_v<Number>) LogField(std::string_view k, Number number)
      : key(k), value(std::to_string(number)) {}
  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  std::string_view key;
  std::string value;
};

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
// debug, info, warning, error; unknown names change nothing and return false.
bool SetLogLevel(std::string_view name);
// Exact values (secrets) that are replaced by "[redacted]" wherever they would be printed.
void AddLogRedaction(std::string secret);

}  // namespace poolmark
