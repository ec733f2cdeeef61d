#include "common/base/time_format.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace poolmark {
namespace {

using std::chrono::duration_cast;

struct Split {
  std::time_t seconds;
  long milliseconds;
};

Split SplitSeconds(Nanoseconds wall) {
  auto seconds = std::chrono::floor<std::chrono::seconds>(wall);
  return {static_cast<std::time_t>(seconds.count()),
          static_cast<long>(duration_cast<std::chrono::milliseconds>(wall - seconds).count())};
}

Status BadDuration(std::string_view text) {
  return InvalidInput("", absl::StrCat("'", std::string(text), "' is no duration"),
                      "write 250ms, 2s, 20m, 1h or 1h30m");
}

}  // namespace

std::string IsoLocal(Nanoseconds wall) {
  std::time_t seconds = SplitSeconds(wall).seconds;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  long offset = parts.tm_gmtoff / 60;
  char zone[40];
  std::snprintf(zone, sizeof zone, "%c%02ld:%02ld", offset < 0 ? '-' : '+', std::labs(offset) / 60,
                std::labs(offset) % 60);
  return absl::StrCat(text, zone);
}

std::string IsoUtc(Nanoseconds wall) {
  Split split = SplitSeconds(wall);
  std::tm parts{};
  gmtime_r(&split.seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char tail[16];
  std::snprintf(tail, sizeof tail, ".%03ldZ", split.milliseconds);
  return absl::StrCat(text, tail);
}

Result<Nanoseconds> ParseDuration(std::string_view text) {
  double total_seconds = 0;
  std::string_view rest = text;
  if (rest.empty()) return BadDuration(text);
  while (!rest.empty()) {
    double number = 0;
    auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (error != std::errc() || number < 0) return BadDuration(text);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    size_t letters = 0;
    while (letters < rest.size() && rest[letters] >= 'a' && rest[letters] <= 'z') ++letters;
    std::string_view unit = rest.substr(0, letters);
    rest.remove_prefix(letters);
    double scale;
    if (unit == "ns")
      scale = 1e-9;
    else if (unit == "us")
      scale = 1e-6;
    else if (unit == "ms")
      scale = 1e-3;
    else if (unit == "s" || (unit.empty() && rest.empty() && total_seconds == 0))
      scale = 1;
    else if (unit == "m")
      scale = 60;
    else if (unit == "h")
      scale = 3600;
    else if (unit == "d")
      scale = 86400;
    else
      return BadDuration(text);
    total_seconds += number * scale;
  }
  if (!(total_seconds < 9e9)) return BadDuration(text);
  return Nanoseconds(static_cast<int64_t>(std::llround(total_seconds * 1e9)));
}

std::string FormatDuration(Nanoseconds duration) {
  int64_t count = duration.count();
  if (count < 0) return absl::StrCat("-", FormatDuration(-duration));
  if (count == 0) return "0s";
  if (count < 1000) return absl::StrCat(count, "ns");
  if (count < 1'000'000) return absl::StrCat(static_cast<double>(count) / 1e3, "us");
  if (count < 1'000'000'000) return absl::StrCat(static_cast<double>(count) / 1e6, "ms");
  std::string text;
  int64_t seconds = count / 1'000'000'000;
  if (seconds >= 3600) absl::StrAppend(&text, seconds / 3600, "h");
  if (seconds % 3600 >= 60) absl::StrAppend(&text, seconds % 3600 / 60, "m");
  double rest = static_cast<double>(seconds % 60) + static_cast<double>(count % 1'000'000'000) / 1e9;
  if (rest > 0) absl::StrAppend(&text, rest, "s");
  return text;
}

}  // namespace poolmark
