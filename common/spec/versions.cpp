#include "common/spec/versions.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace poolmark::spec {
namespace {

using Numbers = std::vector<uint64_t>;

// The numbers that `text` begins with; `rest`: what follows them.
Numbers NumbersOf(std::string_view text, std::string_view* rest) {
  Numbers numbers;
  for (;;) {
    uint64_t number = 0;
    size_t digits = 0;
    while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
    if (digits == 0 || digits > 18) break;
    for (char c : text.substr(0, digits)) number = number * 10 + static_cast<uint64_t>(c - '0');
    numbers.push_back(number);
    text.remove_prefix(digits);
    if (text.size() < 2 || text[0] != '.' || !absl::ascii_isdigit(static_cast<unsigned char>(text[1]))) break;
    text.remove_prefix(1);
  }
  *rest = text;
  return numbers;
}

int Compare(Numbers a, Numbers b) {
  a.resize(std::max(a.size(), b.size()));
  b.resize(a.size());
  return a < b ? -1 : a == b ? 0 : 1;
}

struct Comparison {
  std::string_view sign;
  Numbers version;
  bool Holds(const Numbers& numbers) const {
    const int order = Compare(numbers, version);
    if (sign == ">=") return order >= 0;
    if (sign == ">") return order > 0;
    if (sign == "<=") return order <= 0;
    if (sign == "<") return order < 0;
    return order == 0;
  }
};

Result<std::vector<Comparison>> Parse(std::string_view range) {
  std::vector<Comparison> comparisons;
  for (absl::string_view part : absl::StrSplit(absl::string_view(range.data(), range.size()), ',')) {
    part = absl::StripAsciiWhitespace(part);
    Comparison comparison;
    for (std::string_view sign : {">=", "<=", "==", ">", "<"}) {
      if (!comparison.sign.empty() ||
          part.substr(0, sign.size()) != absl::string_view(sign.data(), sign.size()))
        continue;
      comparison.sign = sign;
      part.remove_prefix(sign.size());
    }
    part = absl::StripAsciiWhitespace(part);
    std::string_view rest;
    comparison.version = NumbersOf({part.data(), part.size()}, &rest);
    if (comparison.sign.empty() || comparison.version.empty() || !rest.empty()) {
      return InvalidInput("", absl::StrCat("'", std::string(range), "' is no range of versions"),
                          "write for example \">=0.22\" or \">=0.22, <1\"");
    }
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

}  // namespace

Status CheckVersionRange(std::string_view range) {
  return Parse(range).status();
}

std::optional<bool> InVersionRange(std::string_view range, std::string_view version) {
  const auto comparisons = Parse(range);
  while (!version.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(version[0])))
    version.remove_prefix(1);
  std::string_view rest;
  const Numbers numbers = NumbersOf(version, &rest);
  if (!comparisons.ok() || numbers.empty()) return std::nullopt;
  return std::all_of(comparisons->begin(), comparisons->end(),
                     [&](const Comparison& comparison) { return comparison.Holds(numbers); });
}

}  // namespace poolmark::spec
