#include "common/quality/extract.h"

#include <algorithm>

#include "common/quality/unicode.h"

namespace poolmark::quality {

std::string ExtractAnswer(std::string_view response) {
  // The tags are ASCII, so ASCII lower case keeps every offset.
  std::string lower(response);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::string_view kAnswer = "<answer>";
  constexpr std::string_view kFinal = "final_answer>";
  size_t answer = lower.rfind(kAnswer);
  size_t final_answer = lower.rfind(kFinal);
  // "</final_answer>" ends in the bare opener's text; that one is a closing tag.
  while (final_answer != std::string::npos && final_answer > 0 && lower[final_answer - 1] == '/') {
    final_answer = lower.rfind(kFinal, final_answer - 1);
  }
  bool use_final =
      final_answer != std::string::npos && (answer == std::string::npos || final_answer > answer);
  if (!use_final && answer == std::string::npos) return "";
  size_t begin = use_final ? final_answer + kFinal.size() : answer + kAnswer.size();
  size_t end = lower.find(use_final ? "</final_answer>" : "</answer>", begin);
  if (end == std::string::npos) return "";
  return Strip(response.substr(begin, end - begin));
}

}  // namespace poolmark::quality
