#include "common/quality/json_text.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace poolmark::quality {
namespace {

void String(std::string_view raw, std::string* out) {
  std::string text = ValidUtf8(raw);
  *out += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\b':
        *out += "\\b";
        break;
      case '\f':
        *out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          char buffer[8];
          std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned char>(c));
          *out += buffer;
        } else {
          *out += c;
        }
    }
  }
  *out += '"';
}

void Break(int indent, int level, bool more, std::string* out) {
  if (indent > 0) {
    *out += '\n';
    out->append(static_cast<size_t>(indent * level), ' ');
  } else if (more) {
    *out += ' ';
  }
}

Status Value(const Json& json, int indent, int level, std::string* out) {
  switch (json.type()) {
    case Json::value_t::null:
      *out += "null";
      break;
    case Json::value_t::boolean:
      *out += json.get<bool>() ? "true" : "false";
      break;
    case Json::value_t::number_integer:
      absl::StrAppend(out, json.get<int64_t>());
      break;
    case Json::value_t::number_unsigned:
      absl::StrAppend(out, json.get<uint64_t>());
      break;
    case Json::value_t::number_float:
      if (!std::isfinite(json.get<double>()))
        return Internal("", "a number that is not finite has no JSON form");
      *out += PythonFloat(json.get<double>());
      break;
    case Json::value_t::string:
      String(json.get_ref<const std::string&>(), out);
      break;
    case Json::value_t::array:
    case Json::value_t::object: {
      bool object = json.is_object();
      *out += object ? '{' : '[';
      bool first = true;
      for (auto it = json.begin(); it != json.end(); ++it) {
        if (!first) *out += ',';
        Break(indent, level + 1, !first, out);
        first = false;
        if (object) {
          String(it.key(), out);
          *out += ": ";
        }
        POOLMARK_RETURN_IF_ERROR(Value(*it, indent, level + 1, out));
      }
      if (!first) Break(indent, level, false, out);
      *out += object ? '}' : ']';
      break;
    }
    default:
      return Internal("", "a value of this type has no JSON form");
  }
  return absl::OkStatus();
}

int HexValue(std::string_view text) {
  if (text.size() < 4) return -1;
  int value = 0;
  for (char c : text.substr(0, 4)) {
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

Result<std::string> WriteJson(const Json& json, int indent) {
  std::string out;
  POOLMARK_RETURN_IF_ERROR(Value(json, indent, 0, &out));
  return out;
}

std::string RepairJsonText(std::string_view text) {
  std::string out = ValidUtf8(text);
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] != '\\') continue;
    if (out[i + 1] != 'u') {
      ++i;  // an escaped backslash or quote
      continue;
    }
    int code = HexValue(std::string_view(out).substr(i + 2));
    if (code < 0xd800 || code > 0xdfff) continue;
    bool pair = code < 0xdc00 && i + 7 < out.size() && out[i + 6] == '\\' && out[i + 7] == 'u';
    int low = pair ? HexValue(std::string_view(out).substr(i + 8)) : -1;
    if (low >= 0xdc00 && low <= 0xdfff) {
      i += 11;
    } else {
      out.replace(i + 2, 4, "fffd");
      i += 5;
    }
  }
  return out;
}

}  // namespace poolmark::quality
