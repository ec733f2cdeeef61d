#include "common/base/html.h"

#include <catch2/catch.hpp>

using poolmark::EscapeHtml;

TEST_CASE("foreign text cannot leave its place in a page") {
  CHECK(EscapeHtml("<img src=x onerror='a'>&\"") == "&lt;img src=x onerror=&#39;a&#39;&gt;&amp;&quot;");
  CHECK(EscapeHtml("&lt;") == "&amp;lt;");  // what was escaped before stays readable
  CHECK(EscapeHtml("ü → ✓\n\t") == "ü → ✓\n\t");
  CHECK(EscapeHtml("\x1b[31m\x7f") == "\\x1b[31m\\x7f");
  CHECK(EscapeHtml(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(EscapeHtml("\xff<") == "\xef\xbf\xbd&lt;");  // invalid UTF-8 swallows nothing
  CHECK(EscapeHtml("\xc3<b>") == "\xef\xbf\xbd&lt;b&gt;");
  CHECK(EscapeHtml("").empty());
}
