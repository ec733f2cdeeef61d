#include "common/base/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace poolmark {
namespace {

// What differs between the texts that we write.
struct Style {
  bool ascii = false;  // \uXXXX, with surrogate pairs, for all beyond ASCII
  bool sort_keys = false;
  int indent = 0;  // 0: one line
};

void Escaped(uint32_t code, std::string* out) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", code);
  *out += buffer;
}

// The code point at `at` of valid UTF-8; moves `at` to its last byte.
uint32_t CodePoint(std::string_view text, size_t* at) {
  auto byte = static_cast<unsigned char>(text[*at]);
  const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
  uint32_t code = byte & (0x3fu >> more);
  for (int i = 0; i < more; ++i) code = code << 6 | (static_cast<unsigned char>(text[++*at]) & 0x3fu);
  return code;
}

class Writer {
 public:
  Writer(const Style& style, std::string* out) : style_(style), out_(*out) {}

  Status Value(const Json& json, int level) {
    switch (json.type()) {
      case Json::value_t::null:
        out_ += "null";
        break;
      case Json::value_t::boolean:
        out_ += json.get<bool>() ? "true" : "false";
        break;
      case Json::value_t::number_integer:
        absl::StrAppend(&out_, json.get<int64_t>());
        break;
      case Json::value_t::number_unsigned:
        absl::StrAppend(&out_, json.get<uint64_t>());
        break;
      case Json::value_t::number_float:
        if (!std::isfinite(json.get<double>()))
          return Internal("", "a number that is not finite has no JSON form");
        out_ += PythonFloat(json.get<double>());
        break;
      case Json::value_t::string:
        String(json.get_ref<const std::string&>());
        break;
      case Json::value_t::array:
      case Json::value_t::object:
        return Container(json, level);
      default:
        return Internal("", "a value of this type has no JSON form");
    }
    return absl::OkStatus();
  }

 private:
  Status Container(const Json& json, int level) {
    const bool object = json.is_object();
    std::vector<std::pair<std::string_view, const Json*>> members;
    members.reserve(json.size());
    for (auto it = json.begin(); it != json.end(); ++it)
      members.emplace_back(object ? std::string_view(it.key()) : std::string_view(), &*it);
    // UTF-8 bytes sort like code points.
    if (object && style_.sort_keys)
      std::sort(members.begin(), members.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
    out_ += object ? '{' : '[';
    bool first = true;
    for (const auto& [key, value] : members) {
      if (!first) out_ += ',';
      Break(level + 1, !first);
      first = false;
      if (object) {
        String(key);
        out_ += ": ";
      }
      POOLMARK_RETURN_IF_ERROR(Value(*value, level + 1));
    }
    if (!first) Break(level, false);
    out_ += object ? '}' : ']';
    return absl::OkStatus();
  }

  void Break(int level, bool more) {
    if (style_.indent > 0) {
      out_ += '\n';
      out_.append(static_cast<size_t>(style_.indent) * static_cast<size_t>(level), ' ');
    } else if (more) {
      out_ += ' ';
    }
  }

  void String(std::string_view raw) {
    const std::string text = ValidUtf8(raw);
    out_ += '"';
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const auto byte = static_cast<unsigned char>(c);
      static constexpr std::string_view kShort = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
      if (const size_t at = kShort.find(c); at != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[at];
      } else if (byte < 0x20 || byte == 0x7f) {
        Escaped(byte, &out_);
      } else if (byte < 0x80 || !style_.ascii) {
        out_ += c;
      } else if (const uint32_t code = CodePoint(text, &i); code < 0x10000) {
        Escaped(code, &out_);
      } else {
        Escaped(0xd800 + ((code - 0x10000) >> 10), &out_);
        Escaped(0xdc00 + ((code - 0x10000) & 0x3ff), &out_);
      }
    }
    out_ += '"';
  }

  const Style style_;
  std::string& out_;
};

Result<std::string> Write(const Json& json, const Style& style) {
  std::string out;
  POOLMARK_RETURN_IF_ERROR(Writer(style, &out).Value(json, 0));
  return out;
}

}  // namespace

Result<std::string> WriteJson(const Json& json, int indent) {
  return Write(json, {.indent = indent});
}

Result<std::string> PythonDumps(const Json& json, bool sort_keys) {
  return Write(json, {.ascii = true, .sort_keys = sort_keys});
}

std::string PythonFloat(double value) {
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  char buffer[64];
  auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, scientific.ptr);
  size_t e = text.find('e');
  int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return text;  // two exponent digits at least, as Python writes
  auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  text.assign(buffer, fixed.ptr);
  if (text.find('.') == text.npos) text += ".0";
  return text;
}

}  // namespace poolmark
