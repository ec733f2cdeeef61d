// Foreign text in HTML: the only place that escapes it. Also right inside a double- or single-quoted
// attribute; not inside a script, a style or a URL. Pure.
#pragma once
#include <string>
#include <string_view>

namespace poolmark {

// & < > " ' become character references, bytes that are no UTF-8 the replacement character, and control
// characters but newline and tab show as \x1b.
std::string EscapeHtml(std::string_view text);

}  // namespace poolmark
