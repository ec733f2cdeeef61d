// Logs that are followed over interruptions: each byte once, also when a log of the same name is another one.
#include "cli/output/log_join.h"

#include <catch2/catch.hpp>

#include "tests/support/fake_clock.h"

namespace poolmark::cli {
namespace {

const LogJoin::Name kEngine{"n0", "engine-n0"}, kRouter{"n0", "router-n0"};

struct Reader {
  test::FakeClock clock;
  std::map<LogJoin::Name, std::string> told;
  std::map<LogJoin::Name, int> begun;
  uint64_t lost = 0;
  LogJoin join{&clock, [this](const LogJoin::Name& name, uint64_t gone, std::string_view data, bool anew) {
                 told[name] += data;
                 begun[name] += anew ? 1 : 0;
                 lost += gone;
               }};
  // The log in pieces, from `offset`.
  void Send(const LogJoin::Name& name, const std::string& log, uint64_t offset = 0, size_t piece = 5) {
    for (; offset < log.size(); offset += piece) join.Add(name, offset, 0, log.substr(offset, piece));
  }
};

TEST_CASE("a log that goes on is told from where it was left, wherever its pieces begin") {
  const size_t piece = GENERATE(1, 3, 7, 100);
  Reader reader;
  reader.Send(kEngine, "listening\nserving 1\n");
  reader.Send(kRouter, "router\n");
  reader.join.Again();
  reader.Send(kEngine, "listening\nserving 1\nserving 2\n", 0, piece);
  reader.Send(kRouter, "router\n", 0, piece);  // nothing new
  reader.join.Again();
  reader.Send(kEngine, "listening\nserving 1\nserving 2\nserving 3\n", 0, piece);
  reader.join.End();
  CHECK(reader.told[kEngine] == "listening\nserving 1\nserving 2\nserving 3\n");
  CHECK(reader.told[kRouter] == "router\n");
  CHECK(reader.begun[kEngine] == 1);
}

TEST_CASE("another log of the same name is told whole") {
  Reader reader;
  reader.Send(kEngine, "listening\nas pid 7\n");
  reader.join.Again();
  SECTION("longer") {
    reader.Send(kEngine, "listening\nas pid 8\nmore\n");
    CHECK(reader.told[kEngine] == "listening\nas pid 7\nlistening\nas pid 8\nmore\n");
    CHECK(reader.begun[kEngine] == 2);
    reader.join.Again();
    reader.Send(kEngine, "listening\nas pid 8\nmore\nstill\n");
    CHECK(reader.told[kEngine].ends_with("more\nstill\n"));
    CHECK(reader.begun[kEngine] == 2);
  }
  SECTION("the same as far as it goes: when it goes on, when another speaks later, or at the end") {
    reader.Send(kEngine, "listening\n");
    CHECK(reader.told[kEngine] == "listening\nas pid 7\n");
    const int how = GENERATE(0, 1, 2);
    if (how != 2) reader.clock.Advance(std::chrono::seconds(4));
    if (how == 0) reader.Send(kEngine, "listening\nas pid 9\n", 10);
    if (how == 1) reader.Send(kRouter, "router\n");
    if (how == 2) reader.join.End();
    CHECK(reader.told[kEngine] ==
          std::string("listening\nas pid 7\nlistening\n") + (how == 0 ? "as pid 9\n" : ""));
  }
}

TEST_CASE("of a log whose beginning was not asked for, or is gone, the place counts") {
  Reader reader;
  const std::string log = "0123456789abcdef";
  reader.Send(kEngine, log.substr(0, 12), 4);  // the tail
  reader.join.Again();
  SECTION("whole") {
    reader.Send(kEngine, log);
    CHECK(reader.told[kEngine] == "456789abcdef");
  }
  SECTION("rotated beyond what was told") {
    reader.join.Add(kEngine, 14, 14, log.substr(14));
    CHECK(reader.told[kEngine] == "456789abef");
    CHECK(reader.lost == 2);
  }
  SECTION("rotated within it") {
    reader.join.Add(kEngine, 10, 10, log.substr(10));
    CHECK(reader.told[kEngine] == "456789abcdef");
    CHECK(reader.lost == 0);
  }
}

}  // namespace
}  // namespace poolmark::cli
