// Style, scripts and Chart.js, embedded at build time.
#pragma once
#include <string_view>

namespace poolmark::report {

std::string_view BaseCss();  // shared with the controller's pages
std::string_view PageCss();
std::string_view ThemeJs();  // shared, too
std::string_view PageJs();
std::string_view ChartJs();

}  // namespace poolmark::report
