// Whole numbers of the command line. CLI11 alone wraps below 0, takes the nearest value that fits beyond 64
// bits and reads 010 as 8.
#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"

namespace poolmark::cli {

// As people write a number: digits, perhaps behind a sign, without a leading 0 and within 64 bits. Beside the
// option's own range.
inline CLI::Validator PlainNumber() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
        const bool plain = error == std::errc() && end == text.data() + text.size();
        if (plain && (digits.size() == 1 || digits[0] != '0')) return "";
        return absl::StrCat("must be a whole number, is ", text.empty() ? "empty" : text);
      },
      "");
}

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

// Every option of `app` and its commands that is a whole number is read as PlainNumber, what cannot be below
// 0 as WholeNumber.
inline void ReadWholeNumbersPlainly(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) option->check(PlainNumber());
    if (type.starts_with("UINT")) option->check(WholeNumber());
  }
  for (CLI::App* command : app.get_subcommands({})) ReadWholeNumbersPlainly(*command);
}

}  // namespace poolmark::cli
