// A connection with the request on it. Internal to the loop's files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "common/load/connection.h"
#include "common/load/loop.h"
#include "common/load/record.h"
#include "common/load/stream.h"

namespace poolmark::load {

struct Loop::Link {
  Connection connection;
  uint32_t target = 0;
  size_t index = 0;  // in links_
  bool closed = false;
  bool idle = false;
  bool watches_writes = false;
  bool connecting = true;
  bool kept = false;  // was open before its request: carried one before, or opened ahead of any
  int64_t opened_at = 0;
  std::optional<int64_t> connect_took;  // until the first request takes it
  int64_t idle_since = 0;
  std::optional<Request> request;
  RequestRecord record;
  StreamReader stream;
  std::string body;
  std::string answer;
  int64_t last_byte = 0;
  int64_t done_at = -1;  // [DONE] came, the end of the HTTP answer did not
};

}  // namespace poolmark::load
