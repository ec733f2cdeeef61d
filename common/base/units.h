// Sizes, ratios and rates with their units in the text. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark {

// "64GiB", "512MiB", "10GB" (decimal), "4096" (bytes).
Result<uint64_t> ParseBytes(std::string_view text);
// "64GiB" where exact, else two decimals: "1.50GiB".
std::string FormatBytes(uint64_t bytes);

// A positive ratio: "1/32", "0.5", "2".
struct Ratio {
  int64_t numerator = 1;
  int64_t denominator = 1;
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  bool operator==(const Ratio&) const = default;
};
Result<Ratio> ParseRatio(std::string_view text);
std::string FormatRatio(Ratio ratio);

// "12.3 Gbit/s".
std::string FormatBitRate(double bits_per_second);

// A name used in paths, cgroups and containers: [a-z0-9][a-z0-9._-]{0,62}.
bool IsName(std::string_view text);

}  // namespace poolmark
