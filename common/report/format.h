// Figures and texts as people read them, for pages and terminals. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/html.h"
#include "common/base/measured.h"
#include "common/results/summary_file.h"

namespace poolmark::report {

// "123 ms", "1.24 s", "82.1 %", "1.21 GB/s", "1,234 tokens/s"; three or four significant digits.
std::string FormatValue(double value, std::string_view unit);
std::string FormatCount(uint64_t count);                                        // "17,400"
std::string FormatValue(const Measured<double>& value, std::string_view unit);  // "not measured"
// "123 ms ± 4.1 ms"; the unit once where both have the same.
std::string FormatInterval(const results::SummaryFigure& figure);
// Columns padded with spaces, two between; the first row is the head. Right-aligned from the second column.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);
// Width in columns of UTF-8 text (code points).
size_t Width(std::string_view text);
// At most that many columns; what was cut shows as "…".
std::string Shortened(std::string_view text, size_t columns);

}  // namespace poolmark::report
