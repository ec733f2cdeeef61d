// Foreign JSON text made readable for the strict parser. Pure, thread-safe.
#pragma once
#include <string>
#include <string_view>

namespace poolmark {

// Without changing what it says: invalid UTF-8 and escaped lone surrogates ("\\ud800") become U+FFFD. Python
// programs write the latter, and engines that cut a character between two tokens the former.
std::string RepairJson(std::string_view text);

// NaN, Infinity and -Infinity, which Python's json.dumps writes for such floats, become null.
std::string NullNonFinite(std::string_view json);

}  // namespace poolmark
