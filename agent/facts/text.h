// Small text tools of the readers of /proc, /sys and vendor tools: lines, fields, strict numbers. Pure but
// for ReadTrimmed. A number that does not parse whole is no number.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::agent {

std::string_view Trim(std::string_view text);
std::vector<std::string_view> Lines(std::string_view text);                    // without empty ones
std::vector<std::string_view> Fields(std::string_view line);                   // split at blanks
std::vector<std::string_view> SplitAt(std::string_view text, char separator);  // empty parts kept, trimmed
std::string Lower(std::string_view text);

std::optional<uint64_t> ToUint(std::string_view text, int base = 10);
std::optional<double> ToDouble(std::string_view text);  // finite only
// What a tool printed as a number where a count belongs; nothing when it is negative or beyond 2^53.
std::optional<uint64_t> ToCount(double number);

// The trimmed content of a pseudo file below a root, or nothing when it cannot be read (EINVAL from a driver
// included).
std::optional<std::string> ReadTrimmed(const std::string& root, const std::string& path);
std::optional<uint64_t> ReadUint(const std::string& root, const std::string& path);
// Names in a directory below a root, sorted; empty when there is none.
std::vector<std::string> Entries(const std::string& root, const std::string& path);
// The last part of a link's target ("../../drivers/mlx5_core" -> "mlx5_core").
std::optional<std::string> LinkName(const std::string& root, const std::string& path);
std::string Below(const std::string& root, const std::string& path);

}  // namespace poolmark::agent
