// The head of an answer as the server writes it: status line and headers, without the empty line at its end
// and without what says how long the body is. Values cannot split the answer: a line end or NUL in one is
// written as a space. Pure.
#pragma once
#include <string>
#include <string_view>

#include "common/http/client.h"

namespace poolmark::http {

// `content_type` "" is not written; without `keep_alive` the head says that the connection closes.
std::string ResponseHead(int status, std::string_view content_type, const Headers& extra, bool keep_alive);

}  // namespace poolmark::http
