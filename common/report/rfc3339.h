// Times of result files back into numbers. Pure.
#pragma once
#include <optional>
#include <string_view>

namespace poolmark::report {

// "2026-10-19T15:41:12.042Z" or with an offset -> seconds since 1970; nothing for anything else.
std::optional<double> ParseRfc3339(std::string_view text);

}  // namespace poolmark::report
