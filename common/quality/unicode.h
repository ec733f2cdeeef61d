// Text as Python sees it: the answer scores are defined over CPython's str.lower(), str.strip(), NFKC and the
// regex classes \w, \s and \d. Behind it: ICU. Not for display widths or collation. Pure, thread-safe.
#pragma once
#include <string>
#include <string_view>

namespace poolmark::quality {

using CodePoints = std::u32string;

// Invalid UTF-8 becomes U+FFFD.
CodePoints Decode(std::string_view utf8);
std::string Encode(const CodePoints& text);

// Full lower case with the final-sigma rule: "İ" becomes two code points.
CodePoints Lower(const CodePoints& text);
CodePoints Nfkc(const CodePoints& text);

// str.isspace(), which is also the regex class \s: 29 code points.
bool IsSpace(char32_t code);
// The regex class \w: letters, numbers of any kind, underscore.
bool IsWord(char32_t code);
// The regex class \d; the digit's value, or -1.
int DecimalValue(char32_t code);
// string.punctuation: the 32 ASCII marks.
bool IsAsciiPunctuation(char32_t code);

CodePoints Strip(const CodePoints& text);
std::string Strip(std::string_view utf8);

}  // namespace poolmark::quality
