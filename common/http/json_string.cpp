#include "common/http/json_string.h"

#include "common/http/text.h"

namespace poolmark::http {
namespace {

void AppendUtf8(unsigned code, std::string* out) {
  const auto put = [out](unsigned byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace

int Hex4(const char* at) {
  int code = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = HexDigit(at[i]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

void AppendDecodedString(std::string_view raw, std::string* out) {
  for (size_t i = 0; i < raw.size();) {
    const size_t next = raw.find('\\', i);
    out->append(raw.substr(i, next - i));
    if (next == std::string_view::npos) return;
    const char kind = raw[next + 1];
    i = next + 2;
    switch (kind) {
      case 'b':
        out->push_back('\b');
        break;
      case 'f':
        out->push_back('\f');
        break;
      case 'n':
        out->push_back('\n');
        break;
      case 'r':
        out->push_back('\r');
        break;
      case 't':
        out->push_back('\t');
        break;
      case 'u': {
        unsigned code = static_cast<unsigned>(Hex4(raw.data() + i));
        i += 4;
        if (IsHigh(code)) {
          code =
              0x10000 + ((code - 0xd800) << 10) + (static_cast<unsigned>(Hex4(raw.data() + i + 2)) - 0xdc00);
          i += 6;
        }
        AppendUtf8(code, out);
        break;
      }
      default:
        out->push_back(kind);
    }
  }
}

size_t Utf8Length(const char* at, const char* end) {
  const auto byte = [at](size_t i) { return static_cast<unsigned char>(at[i]); };
  const unsigned char first = byte(0);
  const size_t length = first >= 0xf0 && first <= 0xf4  ? 4
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xc2 && first < 0xe0 ? 2
                                                        : 0;
  if (length == 0 || static_cast<size_t>(end - at) < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return length;
}

}  // namespace poolmark::http
