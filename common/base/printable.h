// Text of others (servers, models) for a terminal. Not for HTML or JSON, which have escapes of their own.
// Pure, thread-safe.
#pragma once
#include <string>
#include <string_view>

namespace poolmark {

// Control characters as escapes, marks that turn the direction of text and broken UTF-8 as U+FFFD: nothing in
// it moves a cursor, sets a colour or hides a line.
std::string Printable(std::string_view text);

}  // namespace poolmark
