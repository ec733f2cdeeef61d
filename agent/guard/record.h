// One line of text: a word and key=value pairs, percent-encoded. The ledger's records, the requests to a
// guard and its answers and events are all of this form, so that each can be read with `cat` and cut at
// any byte without confusing a reader. Keys may repeat. Pure values.
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace poolmark::guard {

// A longer line is refused by whoever reads one.
inline constexpr size_t kMaxLine = 4u << 20;

struct Record {
  Record() = default;
  explicit Record(std::string word) : name(std::move(word)) {}

  std::string name;
  std::vector<std::pair<std::string, std::string>> fields;

  Record& Add(std::string key, std::string value) {
    fields.emplace_back(std::move(key), std::move(value));
    return *this;
  }
  template <std::integral Number>
  Record& Add(std::string key, Number number) {
    return Add(std::move(key), std::to_string(number));
  }
  // The first value of that key; empty when there is none.
  const std::string& Get(std::string_view key) const;
  bool Has(std::string_view key) const;
  std::vector<std::string> All(std::string_view key) const;
  // Absent or no whole number in range: nothing.
  std::optional<int64_t> Signed(std::string_view key) const;
  std::optional<uint64_t> Unsigned(std::string_view key) const;
  bool operator==(const Record&) const = default;
};

// Without a line end. Control characters, space, '%' and bytes above 0x7e become %XX.
std::string Encode(const Record& record);
// Words and keys are [a-z0-9_]+ of at most 64 characters. Anything else, and bad escapes: nothing.
std::optional<Record> Decode(std::string_view line);

}  // namespace poolmark::guard
