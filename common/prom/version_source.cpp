#include "common/prom/version_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "common/base/json.h"

namespace poolmark::prom {
namespace {

constexpr size_t kLongestVersion = 100;

bool Consume(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// Without empty pieces.
std::vector<std::string_view> Split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string Plausible(std::string version) {
  absl::StripAsciiWhitespace(&version);
  const bool printable = std::all_of(version.begin(), version.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c)) != 0;
  });
  if (version.size() > kLongestVersion || !printable || version.starts_with("b0-") || version == "unknown")
    return "";
  return version;
}

}  // namespace

VersionSource ParseVersionFrom(std::string_view version_from) {
  VersionSource source;
  std::string_view rest = version_from;
  if (Consume(&rest, "GET /")) {
    source.kind = VersionSource::Kind::kHttp;
  } else if (Consume(&rest, "INFO ")) {
    source.kind = VersionSource::Kind::kInfo;
  } else {
    source.target = version_from;
    return source;
  }
  const size_t open = rest.find(" (");
  source.target =
      std::string(source.kind == VersionSource::Kind::kHttp ? "/" : "") + std::string(rest.substr(0, open));
  if (open != std::string_view::npos && rest.ends_with(')')) {
    const std::string_view fields = rest.substr(open + 2, rest.size() - open - 3);
    for (std::string_view field : Split(fields, ", ")) source.fields.emplace_back(field);
  }
  if (source.fields.empty()) source.fields.emplace_back("version");
  return source;
}

std::string VersionIn(const VersionSource& source, std::string_view answer) {
  if (source.kind == VersionSource::Kind::kInfo) {
    const std::vector<std::string_view> lines = Split(answer, "\r\n");
    for (const std::string& field : source.fields) {
      for (std::string_view line : lines) {
        if (Consume(&line, field) && Consume(&line, ":")) return Plausible(std::string(line));
      }
    }
    return "";
  }
  if (source.kind == VersionSource::Kind::kByHand) return "";
  const auto json = ParseJson(answer, source.target, {4u << 20, 64, true});
  if (!json.ok()) return "";
  if (json->is_string()) return Plausible(json->get<std::string>());
  for (const std::string& field : source.fields) {
    if (json->is_object() && json->contains(field) && (*json)[field].is_string())
      return Plausible((*json)[field].get<std::string>());
  }
  return "";
}

}  // namespace poolmark::prom
