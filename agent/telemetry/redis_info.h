// Redis and Valkey by INFO over their own protocol. The parser is pure; the client speaks just enough RESP
// for one command, with limits and a deadline.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/telemetry/point.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::agent {

struct RedisInfo {
  std::map<std::string, std::string, std::less<>> fields;
  uint64_t keys = 0;    // over all databases
  std::string version;  // valkey_version, else redis_version
  std::string run_id;
};
// Errors for what is no INFO answer.
Result<RedisInfo> ParseRedisInfo(std::string_view text);
// The series of the dialect.
Reading ReadingOf(const RedisInfo& info, const prom::Dialect& dialect);

// redis://host:port or host:port.
Result<std::pair<std::string, uint16_t>> ParseRedisAddress(std::string_view url);
// One command on a connection of its own: the bulk or simple string it answers. An error reply is an error.
Result<std::string> RedisCommand(const std::string& host, uint16_t port,
                                 const std::vector<std::string>& words, Nanoseconds timeout,
                                 size_t max_bytes = 1u << 20);

}  // namespace poolmark::agent
