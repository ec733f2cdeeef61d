#include "common/workload/prompt.h"

#include <charconv>

namespace poolmark::workload {

int64_t TokensOf(const Prompt& prompt) {
  int64_t total = 0;
  for (const Span& span : prompt) total += span.tokens;
  return total;
}

uint64_t MixKey(uint64_t left, std::string_view text) {
  uint64_t key = MixKey(left, static_cast<uint64_t>(text.size()));
  for (const char c : text) key = MixKey(key, static_cast<uint64_t>(static_cast<unsigned char>(c)));
  return key;
}

std::vector<uint32_t> TokensIn(const Prompt& prompt, Vocabulary vocabulary) {
  std::vector<uint32_t> tokens;
  tokens.reserve(static_cast<size_t>(TokensOf(prompt)));
  for (const Span& span : prompt) {
    for (uint32_t i = 0; i < span.tokens; ++i) tokens.push_back(TokenAt(span.key, i, vocabulary));
  }
  return tokens;
}

void AppendTokenIds(const Prompt& prompt, Vocabulary vocabulary, std::string* out) {
  bool first = true;
  char digits[12];
  for (const Span& span : prompt) {
    for (uint32_t i = 0; i < span.tokens; ++i) {
      if (!first) out->push_back(',');
      first = false;
      const auto end = std::to_chars(digits, digits + sizeof digits, TokenAt(span.key, i, vocabulary));
      out->append(digits, end.ptr);
    }
  }
}

void AppendWords(const Span& span, const std::vector<std::string>& words, bool first_of_text,
                 std::string* out) {
  const Vocabulary vocabulary{0, static_cast<uint32_t>(words.size())};
  for (uint32_t i = 0; i < span.tokens; ++i) {
    if (!first_of_text || i > 0) out->push_back(' ');
    out->append(words[TokenAt(span.key, i, vocabulary)]);
  }
}

}  // namespace poolmark::workload
