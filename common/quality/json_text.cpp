#include "common/quality/json_text.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json_repair.h"

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

}  // namespace

Result<std::string> WriteJson(const Json& json, int indent) {
  std::string out;
  POOLMARK_RETURN_IF_ERROR(Value(json, indent, 0, &out));
  return out;
}

std::string RepairJsonText(std::string_view text) {
  return RepairJson(text);
}

}  // namespace poolmark::quality
