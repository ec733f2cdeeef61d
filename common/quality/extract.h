// Finds the answer a model marked in its response. Pure, linear in the response's length.
#pragma once
#include <string>
#include <string_view>

namespace poolmark::quality {

// The text inside the last answer tags, stripped: <answer>…</answer>, <final_answer>…</final_answer> or the
// bare final_answer>…</final_answer> that gpt-oss writes, in any letter case. "" when there are none, or when
// the last opening tag is not closed by its own closing tag (the output was cut off).
std::string ExtractAnswer(std::string_view response);

}  // namespace poolmark::quality
