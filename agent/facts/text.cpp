#include "agent/facts/text.h"

#include <unistd.h>

#include <charconv>
#include <climits>
#include <cmath>

#include "common/base/files.h"

namespace poolmark::agent {

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  while (start < text.size()) {
    size_t end = text.find('\n', start);
    if (end == std::string_view::npos) end = text.size();
    std::string_view line = text.substr(start, end - start);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
    start = end + 1;
  }
  return lines;
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
    const size_t start = at;
    while (at < line.size() && line[at] != ' ' && line[at] != '\t') ++at;
    if (at > start) fields.push_back(line.substr(start, at - start));
  }
  return fields;
}

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (;;) {
    const size_t end = text.find(separator, start);
    parts.push_back(Trim(text.substr(start, end == std::string_view::npos ? end : end - start)));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::optional<uint64_t> ToUint(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ToDouble(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<uint64_t> ToCount(double number) {
  constexpr double kMost = 1ULL << 53;  // whole numbers are exact up to here
  return number >= 0 && number <= kMost ? std::optional(static_cast<uint64_t>(number)) : std::nullopt;
}

std::string Below(const std::string& root, const std::string& path) {
  return root == "/" ? path : JoinPath(root, path.empty() || path[0] != '/' ? path : path.substr(1));
}

std::optional<std::string> ReadTrimmed(const std::string& root, const std::string& path) {
  const auto text = ReadPseudoFile(Below(root, path), 16u << 20);
  if (!text.ok()) return std::nullopt;
  return std::string(Trim(*text));
}

std::optional<uint64_t> ReadUint(const std::string& root, const std::string& path) {
  const auto text = ReadTrimmed(root, path);
  return text ? ToUint(*text) : std::nullopt;
}

std::vector<std::string> Entries(const std::string& root, const std::string& path) {
  auto names = ListDir(Below(root, path));
  return names.ok() ? std::move(*names) : std::vector<std::string>{};
}

std::optional<std::string> LinkName(const std::string& root, const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(Below(root, path).c_str(), target, sizeof target);
  if (size <= 0) return std::nullopt;
  const std::string text(target, static_cast<size_t>(size));
  return text.substr(text.find_last_of('/') + 1);
}

}  // namespace poolmark::agent
