// Whole numbers of the command line. CLI11 alone wraps below 0, takes the nearest value that fits beyond 64
// bits and reads 010 as 8.
#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"

namespace poolmark::cli {

// Digits only, from `least` to 2^63 - 1.
inline CLI::Validator WholeNumber(int64_t least = 0) {
  return CLI::Validator(
      [least](std::string& text) -> std::string {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool digits =
            error == std::errc() && end == text.data() + text.size() && text.find('-') == text.npos;
        if (digits && value >= least && (text.size() == 1 || text[0] != '0')) return "";
        return absl::StrCat("must be a whole number from ", least, " to ",
                            std::numeric_limits<int64_t>::max(), ", is ", text.empty() ? "empty" : text);
      },
      "");
}

}  // namespace poolmark::cli
