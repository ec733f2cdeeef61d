// When an engine counts a prompt. Pure.
#pragma once
#include <string_view>

namespace poolmark::stats {

// When its counter of prompt tokens moves for a prompt.
enum class CountedAt { kFirstToken, kFinish };

// Of the series that AttributeEngine takes the prompt tokens of a dialect from; deploy/catalogue names the
// moment of each, and a test holds the two against each other.
CountedAt PromptsCountedAt(std::string_view dialect);

}  // namespace poolmark::stats
