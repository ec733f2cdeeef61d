// What a load is made of: limits of connections, objectives, event loops.
#include "common/load/options.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/load/loop.h"
#include "common/load/summary.h"

namespace poolmark::load {

TEST_CASE("an objective gives each limit once") {
  CHECK(ParseSlo("ttft=2s,tpot=100ms,latency=10s,share=0.99").ok());
  for (const char* twice : {"ttft=2s,ttft=3s", "tpot=1ms,ttft=1s,tpot=1ms", "latency=1s,latency=1s",
                            "ttft=1s,share=0.5,share=0.9"}) {
    const auto slo = ParseSlo(twice);
    INFO(twice);
    REQUIRE_FALSE(slo.ok());
    CHECK(slo.status().message().find("given twice") != std::string::npos);
  }
  for (const char* never : {"ttft=0s", "ttft=1s,tpot=0ms"}) CHECK_FALSE(ParseSlo(never).ok());
}

TEST_CASE("a closed loop has a connection for each user of a process, or is refused") {
  LoadOptions options;
  options.users = 9;
  options.loops = 2;
  options.max_connections = 9;
  CHECK(CheckConnections(options, 1).ok());
  options.max_connections = 8;
  const Status refused = CheckConnections(options, 1);
  CHECK(refused.message().find("concurrency 9 cannot be held") != std::string::npos);
  CHECK(refused.message().find("--max-connections to 9") != std::string::npos);
  // Two processes of two loops: 3 + 2 and 2 + 2 users.
  options.max_connections = 5;
  CHECK(CheckConnections(options, 2).ok());
  options.max_connections = 4;
  CHECK_FALSE(CheckConnections(options, 2).ok());
  options.max_connections = 0;  // no limit
  CHECK(CheckConnections(options, 1).ok());
  // What a limit suffices for in the process, it suffices for in each of its loops.
  for (uint32_t users = 1; users < 40; ++users) {
    for (int loops = 1; loops <= 4; ++loops) {
      for (uint32_t processes = 1; processes <= 3; ++processes) {
        const uint32_t parts = static_cast<uint32_t>(loops) * processes;
        for (uint32_t process = 0; process < processes; ++process) {
          uint32_t of_process = 0;
          const auto part = [&](int loop) {
            return process * static_cast<uint32_t>(loops) + static_cast<uint32_t>(loop);
          };
          for (int loop = 0; loop < loops; ++loop) of_process += ShareOf(users, part(loop), parts);
          LoadOptions o;
          o.loops = loops;
          o.max_connections = std::max(of_process, static_cast<uint32_t>(loops));
          for (int loop = 0; loop < loops; ++loop) {
            CHECK(ConnectionsOfLoop(o, {part(loop), parts}) >= ShareOf(users, part(loop), parts));
          }
        }
      }
    }
  }
}

TEST_CASE("a closed loop's workers each have a user and one warm-up for all") {
  LoadOptions o;
  o.urls = {*http::ParseUrl("http://127.0.0.1:1/v1/completions")};
  o.duration = std::chrono::seconds(9);
  o.users = 2;
  o.workers = 2;
  CHECK(ValidateOptions(o).ok());
  o.workers = 3;
  CHECK_THAT(std::string(ValidateOptions(o).message()),
             Catch::Contains("2 users cannot be shared by 3 workers"));
  o.users = 3;
  CHECK(ValidateOptions(o).ok());
  for (uint64_t LoadOptions::*count : {&LoadOptions::warm_up_requests, &LoadOptions::warm_up_sessions}) {
    LoadOptions counted = o;
    counted.*count = 10;
    CHECK_THAT(std::string(ValidateOptions(counted).message()), Catch::Contains("cannot be shared"));
    counted.workers = 1;
    CHECK(ValidateOptions(counted).ok());
  }
}

TEST_CASE("a load has as many event loops as it needs and no more than cores") {
  LoadOptions closed;
  closed.users = 512;
  CHECK(DefaultLoops(closed, 16, 1) == 1);
  closed.users = 1024;
  CHECK(DefaultLoops(closed, 16, 1) == 2);
  closed.users = 25'000;
  CHECK(DefaultLoops(closed, 16, 1) == 16);
  CHECK(DefaultLoops(closed, 2, 1) == 2);
  CHECK(DefaultLoops(closed, 16, 8) == 2);
  closed.users = 2'500;
  CHECK(DefaultLoops(closed, 16, 1) == 3);
  closed.workers = 2;
  CHECK(DefaultLoops(closed, 16, 1) == 2);
  LoadOptions open;
  open.mode = LoadOptions::Mode::kRate;
  open.arrivals.steps = *ParseRate("100-9000:60s,100");
  CHECK(DefaultLoops(open, 16, 1) == 5);
  CHECK(DefaultLoops(open, 1, 4) == 1);
  open.mode = LoadOptions::Mode::kTrace;
  CHECK(DefaultLoops(open, 16, 1) == 1);
}

}  // namespace poolmark::load
