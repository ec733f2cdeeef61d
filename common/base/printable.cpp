#include "common/base/printable.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "common/base/json.h"

namespace poolmark {

std::string Printable(std::string_view raw) {
  // Beyond the C0 controls: C1 (terminals obey U+009B) and marks that turn the direction of text.
  static constexpr std::string_view kTurns[] = {"\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d",
                                                "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u061c"};
  std::string out;
  const std::string text = ValidUtf8(raw);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    auto byte = static_cast<unsigned char>(c);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      char buffer[16];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", next);
      out += buffer;
      ++i;
      continue;
    }
    const auto* turn = std::find_if(std::begin(kTurns), std::end(kTurns), [&](std::string_view mark) {
      return std::string_view(text).substr(i).starts_with(mark);
    });
    if (turn != std::end(kTurns)) {
      out += "\xef\xbf\xbd";
      i += turn->size() - 1;
      continue;
    }
    if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02x", byte);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace poolmark
