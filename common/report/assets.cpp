#include "common/report/assets.h"

// The assembler reads the files: no generated source, no escaping.
#define POOLMARK_EMBED(name, file)                                          \
  asm(".section .rodata\n.global poolmark_" name "_begin\npoolmark_" name   \
      "_begin:\n"                                                           \
      ".incbin \"" file "\"\n.global poolmark_" name "_end\npoolmark_" name \
      "_end:\n.byte 0\n"                                                    \
      ".previous\n")

POOLMARK_EMBED("base_css", POOLMARK_PAGE_DIR "/base.css");
POOLMARK_EMBED("page_css", POOLMARK_PAGE_DIR "/page.css");
POOLMARK_EMBED("theme_js", POOLMARK_PAGE_DIR "/theme.js");
POOLMARK_EMBED("page_js", POOLMARK_PAGE_DIR "/page.js");
POOLMARK_EMBED("chart_js", POOLMARK_CHART_JS);

extern "C" {
extern const char poolmark_base_css_begin[], poolmark_base_css_end[];
extern const char poolmark_page_css_begin[], poolmark_page_css_end[];
extern const char poolmark_theme_js_begin[], poolmark_theme_js_end[];
extern const char poolmark_page_js_begin[], poolmark_page_js_end[];
extern const char poolmark_chart_js_begin[], poolmark_chart_js_end[];
}

namespace poolmark::report {
namespace {

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::string_view BaseCss() {
  return Between(poolmark_base_css_begin, poolmark_base_css_end);
}
std::string_view PageCss() {
  return Between(poolmark_page_css_begin, poolmark_page_css_end);
}
std::string_view ThemeJs() {
  return Between(poolmark_theme_js_begin, poolmark_theme_js_end);
}
std::string_view PageJs() {
  return Between(poolmark_page_js_begin, poolmark_page_js_end);
}
std::string_view ChartJs() {
  return Between(poolmark_chart_js_begin, poolmark_chart_js_end);
}

}  // namespace poolmark::report
