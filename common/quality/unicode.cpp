#include "common/quality/unicode.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "common/base/json.h"

namespace poolmark::quality {
namespace {

bool IsAscii(const CodePoints& text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; });
}

icu::UnicodeString ToIcu(const CodePoints& text) {
  return icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()),
                                       static_cast<int32_t>(text.size()));
}

CodePoints FromIcu(const icu::UnicodeString& text) {
  CodePoints out(static_cast<size_t>(text.countChar32()), U'\0');
  UErrorCode error = U_ZERO_ERROR;
  text.toUTF32(reinterpret_cast<UChar32*>(out.data()), static_cast<int32_t>(out.size()), error);
  return out;
}

}  // namespace

CodePoints Decode(std::string_view utf8) {
  CodePoints out;
  out.reserve(utf8.size());
  bool ascii =
      std::all_of(utf8.begin(), utf8.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) {
    out.assign(utf8.begin(), utf8.end());
    return out;
  }
  std::string valid = ValidUtf8(utf8);
  for (size_t i = 0; i < valid.size();) {
    auto first = static_cast<unsigned char>(valid[i]);
    size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    char32_t code = length == 1 ? first : first & (0xffu >> (length + 1));
    for (size_t k = 1; k < length; ++k)
      code = (code << 6) | (static_cast<unsigned char>(valid[i + k]) & 0x3fu);
    out.push_back(code);
    i += length;
  }
  return out;
}

std::string Encode(const CodePoints& text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t code : text) {
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | (code >> 6));
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | (code >> 12));
      out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      out += static_cast<char>(0xf0 | (code >> 18));
      out += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
      out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return out;
}

CodePoints Lower(const CodePoints& text) {
  if (IsAscii(text)) {
    CodePoints out = text;
    for (char32_t& c : out) {
      if (c >= U'A' && c <= U'Z') c += 32;
    }
    return out;
  }
  return FromIcu(ToIcu(text).toLower(icu::Locale::getRoot()));
}

CodePoints Nfkc(const CodePoints& text) {
  if (IsAscii(text)) return text;
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form = icu::Normalizer2::getNFKCInstance(error);
  if (U_FAILURE(error)) return text;
  icu::UnicodeString out = form->normalize(ToIcu(text), error);
  return U_FAILURE(error) ? text : FromIcu(out);
}

bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool IsWord(char32_t c) {
  if (c < 0x80)
    return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9') || c == U'_';
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

int DecimalValue(char32_t c) {
  if (c < 0x80) return c >= U'0' && c <= U'9' ? static_cast<int>(c - U'0') : -1;
  if (u_charType(static_cast<UChar32>(c)) != U_DECIMAL_DIGIT_NUMBER) return -1;
  return u_charDigitValue(static_cast<UChar32>(c));
}

bool IsAsciiPunctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) ||
         (c >= 0x7b && c <= 0x7e);
}

CodePoints Strip(const CodePoints& text) {
  size_t begin = 0;
  size_t end = text.size();
  while (begin < end && IsSpace(text[begin])) ++begin;
  while (end > begin && IsSpace(text[end - 1])) --end;
  return text.substr(begin, end - begin);
}

std::string Strip(std::string_view utf8) {
  return Encode(Strip(Decode(utf8)));
}

}  // namespace poolmark::quality
