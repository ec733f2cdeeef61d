// Prompts as spans of tokens. A span is the head of an endless stream of tokens that its key fixes, so equal
// keys give equal tokens on every machine, and different keys share nothing but chance: one token in the size
// of the vocabulary, 16 in a row in its 16th power. Analysis works on spans alone; tokens or words are made
// late, when a request is sent. Plain values and pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::workload {

enum class Role : uint8_t { kSystem, kUser, kAssistant };

struct Span {
  uint64_t key = 0;
  uint32_t tokens = 0;
  Role role = Role::kUser;
  bool operator==(const Span&) const = default;
};

// In order; neighbours of one key do not occur (the second would repeat the first's tokens).
using Prompt = std::vector<Span>;

int64_t TokensOf(const Prompt& prompt);

// A key from its parts; SplitMix64's finaliser over each (no secrets).
constexpr uint64_t MixKey(uint64_t left, uint64_t right) {
  uint64_t z = left + 0x9e3779b97f4a7c15ull + right * 0xd1342543de82ef95ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
uint64_t MixKey(uint64_t left, std::string_view text);

// Token ids lie in [first, first + count). They must be plain tokens of the model: no control tokens.
struct Vocabulary {
  uint32_t first = 1000;
  uint32_t count = 20000;
  bool operator==(const Vocabulary&) const = default;
};

// Token number `index` of the stream of `key`.
constexpr uint32_t TokenAt(uint64_t key, uint64_t index, Vocabulary vocabulary) {
  const auto product = static_cast<__uint128_t>(MixKey(key, index)) * vocabulary.count;
  return vocabulary.first + static_cast<uint32_t>(product >> 64);
}

// All token ids of a prompt, for tests and counters.
std::vector<uint32_t> TokensIn(const Prompt& prompt, Vocabulary vocabulary);

// "12,7,4711" appended: the inside of a JSON array.
void AppendTokenIds(const Prompt& prompt, Vocabulary vocabulary, std::string* out);

// Words with one space between, each word one token where `words` came through a tokenizer (tokens.h).
// Words are plain ASCII letters and need no escaping in JSON.
void AppendWords(const Span& span, const std::vector<std::string>& words, bool first_of_text,
                 std::string* out);

}  // namespace poolmark::workload
