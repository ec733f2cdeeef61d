// The inside of JSON strings, without a tree: escapes, UTF-8, decoding. For readers of events; whole
// documents are read with ParseJson (common/base/json.h). Pure and thread-safe.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace poolmark::http {

// Halves of a surrogate pair.
inline bool IsHigh(unsigned code) {
  return code >= 0xd800 && code < 0xdc00;
}
inline bool IsLow(unsigned code) {
  return code >= 0xdc00 && code < 0xe000;
}

// The value of four hex digits, or -1.
int Hex4(const char* at);
// The length of a valid UTF-8 sequence of two to four bytes, or 0.
size_t Utf8Length(const char* at, const char* end);
// Appends the value of a string, given without its quotes, that was found valid.
void AppendDecodedString(std::string_view raw, std::string* out);

}  // namespace poolmark::http
