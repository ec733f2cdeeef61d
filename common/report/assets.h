// The page's own style and script, and Chart.js, embedded at build time. Thread-safe.
#pragma once
#include <string_view>

namespace poolmark::report {

std::string_view PageCss();
std::string_view PageJs();
std::string_view ChartJs();

}  // namespace poolmark::report
