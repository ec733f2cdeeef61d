// The Redis protocol (RESP2), client side: a push parser for replies and a blocking, pipelining client over
// TCP. The parser is pure and takes hostile bytes; the client is not thread-safe (one per thread).
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace poolmark::sim {

struct RespValue {
  enum class Kind { kSimple, kError, kInteger, kBulk, kNil, kArray };
  Kind kind = Kind::kNil;
  std::string text;  // simple, error, bulk
  int64_t integer = 0;
  std::vector<RespValue> items;
};

struct RespLimits {
  int64_t max_bulk_bytes = 64 << 20;
  int64_t max_items = 1 << 20;
  int max_depth = 8;
};

// Reads one reply off the front of `input`: bytes used, 0 when more are needed, or an error for bytes that
// are no RESP or break a limit.
Result<size_t> ParseResp(std::string_view input, RespValue* value, const RespLimits& limits = {});

// "*2\r\n$3\r\nGET\r\n..."; appends.
void AppendCommand(const std::vector<std::string_view>& words, std::string* out);

class RedisClient {
 public:
  // redis://host:port[/db] or redis://:password@host:port[/db]. The password may come from elsewhere, so
  // that it stands on no command line.
  static Result<std::unique_ptr<RedisClient>> Connect(const std::string& url, const std::string& password,
                                                      std::chrono::milliseconds timeout);
  virtual ~RedisClient() = default;
  // Sends all commands, then reads as many replies. An error of the connection ends the client's use;
  // errors of a command are replies.
  virtual Result<std::vector<RespValue>> Pipeline(
      const std::vector<std::vector<std::string_view>>& commands) = 0;
};

}  // namespace poolmark::sim
