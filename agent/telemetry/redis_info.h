// Redis and Valkey by the answer to INFO. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/telemetry/point.h"
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
}  // namespace poolmark::agent
