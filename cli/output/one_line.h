// Text of several lines (the last lines of a log in a reason) as one, for tables and lines of events: "a |
// b". What is at its end is left out. Pure.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace poolmark::cli {

inline std::string OneLine(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    if (end > 0 && !out.empty()) out += " | ";
    out += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace poolmark::cli
