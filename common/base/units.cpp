#include "common/base/units.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace poolmark {
namespace {

struct ByteUnit {
  std::string_view name;
  double scale;
};
constexpr ByteUnit kByteUnits[] = {{"TiB", 1099511627776.0},
                                   {"GiB", 1073741824.0},
                                   {"MiB", 1048576.0},
                                   {"KiB", 1024.0},
                                   {"TB", 1e12},
                                   {"GB", 1e9},
                                   {"MB", 1e6},
                                   {"kB", 1e3},
                                   {"KB", 1e3},
                                   {"B", 1},
                                   {"", 1}};

Status BadBytes(std::string_view text) {
  return InvalidInput("", absl::StrCat("'", std::string(text), "' is no size"),
                      "write 4096, 512MiB, 64GiB or 10GB");
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  double number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || number < 0) return BadBytes(text);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const ByteUnit& candidate : kByteUnits) {
    if (unit != candidate.name) continue;
    double bytes = number * candidate.scale;
    if (!(bytes < 9.2e18)) return BadBytes(text);
    return static_cast<uint64_t>(std::llround(bytes));
  }
  return BadBytes(text);
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  uint64_t scale = 1;
  while (unit + 1 < std::size(kNames) && bytes / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  std::string name(kNames[unit]);
  if (bytes % scale == 0) return absl::StrCat(bytes / scale, name);
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / static_cast<double>(scale));
  return absl::StrCat(text, name);
}

Result<Ratio> ParseRatio(std::string_view text) {
  auto bad = [&] {
    return InvalidInput("", absl::StrCat("'", std::string(text), "' is no positive ratio"),
                        "write 1/32, 0.5 or 2");
  };
  size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    Ratio ratio;
    std::string_view left = text.substr(0, slash), right = text.substr(slash + 1);
    auto a = std::from_chars(left.data(), left.data() + left.size(), ratio.numerator);
    auto b = std::from_chars(right.data(), right.data() + right.size(), ratio.denominator);
    if (a.ec != std::errc() || b.ec != std::errc() || a.ptr != left.data() + left.size() ||
        b.ptr != right.data() + right.size() || ratio.numerator <= 0 || ratio.denominator <= 0) {
      return bad();
    }
    return ratio;
  }
  double value = 0;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(value > 0) || value > 1e6)
    return bad();
  int64_t numerator = std::llround(value * 1'000'000);
  if (numerator == 0) return bad();
  int64_t divisor = std::gcd(numerator, int64_t{1'000'000});
  return Ratio{numerator / divisor, 1'000'000 / divisor};
}

std::string FormatRatio(Ratio ratio) {
  if (ratio.denominator == 1) return absl::StrCat(ratio.numerator);
  return absl::StrCat(ratio.numerator, "/", ratio.denominator);
}

std::string FormatBitRate(double bits_per_second) {
  static constexpr const char* kNames[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
  size_t unit = 0;
  while (unit + 1 < std::size(kNames) && bits_per_second >= 1000) {
    bits_per_second /= 1000;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s", bits_per_second, kNames[unit]);
  return text;
}

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!alnum && (i == 0 || (c != '.' && c != '_' && c != '-'))) return false;
  }
  return true;
}

}  // namespace poolmark
