#include "agent/guard/record.h"

#include <charconv>

namespace poolmark::guard {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

bool IsWord(std::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  for (char c : text) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

void AppendEscaped(std::string_view value, std::string* out) {
  for (char c : value) {
    auto u = static_cast<unsigned char>(c);
    if (u <= 0x20 || u >= 0x7f || c == '%') {
      *out += '%';
      *out += kHexDigits[u >> 4];
      *out += kHexDigits[u & 15];
    } else {
      *out += c;
    }
  }
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::optional<std::string> Unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    auto u = static_cast<unsigned char>(text[i]);
    if (u <= 0x20 || u >= 0x7f) return std::nullopt;
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    int high = HexValue(text[i + 1]);
    int low = HexValue(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

template <class Number>
std::optional<Number> ParseNumber(const std::string& text) {
  Number number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

}  // namespace

const std::string& Record::Get(std::string_view key) const {
  static const std::string kNone;
  for (const auto& [k, v] : fields) {
    if (k == key) return v;
  }
  return kNone;
}

bool Record::Has(std::string_view key) const {
  for (const auto& [k, v] : fields) {
    if (k == key) return true;
  }
  return false;
}

std::vector<std::string> Record::All(std::string_view key) const {
  std::vector<std::string> values;
  for (const auto& [k, v] : fields) {
    if (k == key) values.push_back(v);
  }
  return values;
}

std::optional<int64_t> Record::Signed(std::string_view key) const {
  return ParseNumber<int64_t>(Get(key));
}
std::optional<uint64_t> Record::Unsigned(std::string_view key) const {
  return ParseNumber<uint64_t>(Get(key));
}

std::string Encode(const Record& record) {
  std::string out = record.name;
  for (const auto& [key, value] : record.fields) {
    out += ' ';
    out += key;
    out += '=';
    AppendEscaped(value, &out);
  }
  return out;
}

std::optional<Record> Decode(std::string_view line) {
  if (line.size() > kMaxLine) return std::nullopt;
  size_t space = line.find(' ');
  Record record{std::string(line.substr(0, space))};
  if (!IsWord(record.name)) return std::nullopt;
  while (space != std::string_view::npos) {
    line.remove_prefix(space + 1);
    space = line.find(' ');
    std::string_view field = line.substr(0, space);
    size_t equals = field.find('=');
    if (equals == std::string_view::npos || !IsWord(field.substr(0, equals))) return std::nullopt;
    auto value = Unescape(field.substr(equals + 1));
    if (!value) return std::nullopt;
    record.Add(std::string(field.substr(0, equals)), std::move(*value));
  }
  return record;
}

}  // namespace poolmark::guard
