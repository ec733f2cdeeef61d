#include "common/base/json_repair.h"

#include "common/base/json.h"

namespace poolmark {
namespace {

// The value of four hex digits at the start of `text`, or -1.
int HexValue(std::string_view text) {
  if (text.size() < 4) return -1;
  int value = 0;
  for (const char c : text.substr(0, 4)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

std::string RepairJson(std::string_view text) {
  std::string out = ValidUtf8(text);
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] != '\\') continue;
    if (out[i + 1] != 'u') {
      ++i;  // an escaped backslash or quote
      continue;
    }
    const int code = HexValue(std::string_view(out).substr(i + 2));
    if (code < 0xd800 || code > 0xdfff) continue;
    const bool pair = code < 0xdc00 && i + 7 < out.size() && out[i + 6] == '\\' && out[i + 7] == 'u';
    const int low = pair ? HexValue(std::string_view(out).substr(i + 8)) : -1;
    if (low >= 0xdc00 && low <= 0xdfff) {
      i += 11;
    } else {
      out.replace(i + 2, 4, "fffd");
      i += 5;
    }
  }
  return out;
}

std::string NullNonFinite(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < json.size()) out += json[++i];
      if (c == '"') in_string = false;
      continue;
    }
    in_string = c == '"';
    size_t word = 0;
    for (const std::string_view name : {"NaN", "Infinity", "-Infinity"}) {
      if (json.substr(i).starts_with(name)) word = name.size();
    }
    if (word == 0) {
      out += c;
    } else {
      out += "null";
      i += word - 1;
    }
  }
  return out;
}

}  // namespace poolmark
