#include "common/report/assets.h"

// The assembler reads the files: no generated source, no escaping.
#define POOLMARK_EMBED(name, file)                                          \
  asm(".section .rodata\n.global poolmark_" name "_begin\npoolmark_" name   \
      "_begin:\n"                                                           \
      ".incbin \"" file "\"\n.global poolmark_" name "_end\npoolmark_" name \
      "_end:\n.byte 0\n"                                                    \
      ".previous\n")

POOLMARK_EMBED("page_css", POOLMARK_PAGE_CSS);
POOLMARK_EMBED("page_js", POOLMARK_PAGE_JS);
POOLMARK_EMBED("chart_js", POOLMARK_CHART_JS);

extern "C" {
extern const char poolmark_page_css_begin[], poolmark_page_css_end[];
extern const char poolmark_page_js_begin[], poolmark_page_js_end[];
extern const char poolmark_chart_js_begin[], poolmark_chart_js_end[];
}

namespace poolmark::report {

std::string_view PageCss() {
  return {poolmark_page_css_begin, static_cast<size_t>(poolmark_page_css_end - poolmark_page_css_begin)};
}
std::string_view PageJs() {
  return {poolmark_page_js_begin, static_cast<size_t>(poolmark_page_js_end - poolmark_page_js_begin)};
}
std::string_view ChartJs() {
  return {poolmark_chart_js_begin, static_cast<size_t>(poolmark_chart_js_end - poolmark_chart_js_begin)};
}

}  // namespace poolmark::report
