// One Redis command on a connection of its own: enough for probes, resets and readiness. Thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::process {

// `command` is one line, words separated by blanks ("FLUSHALL", "DBSIZE"). The answer's text: a simple
// string, a number, a bulk string ("" for nil), or array elements a line each. An error answer is
// FAILED_PRECONDITION. At most `max_bytes`.
Result<std::string> RedisCommand(const std::string& host, uint16_t port, std::string_view command,
                                 Nanoseconds timeout, size_t max_bytes = 1u << 20);
// Connects and closes again.
Status TcpConnect(const std::string& host, uint16_t port, Nanoseconds timeout);

// The parser alone: whole answers in `text`; consumed bytes in *used (0: more is needed).
Result<std::string> ParseRedisAnswer(std::string_view text, size_t* used, int depth = 0);

}  // namespace poolmark::process
