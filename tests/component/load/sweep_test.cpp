// A sweep: its levels, their directories, and what a report makes of them (the search itself: knee_test.cpp).
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/report/knee_page.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/program.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::OneToken;
using poolmark::test::RawConnection;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;

// Answers so many requests, and refuses all after them.
TokenServer ServerThatTires(int after) {
  return TokenServer({.answer = [after](RawConnection& connection, const std::string&, int number) {
    if (number >= after)
      return connection.Write("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno");
    return connection.Write(OneToken());
  }});
}

// A sweep of rates with a request at each level, of which the first three are answered.
Json SlowSweep(const std::string& out) {
  TokenServer server = ServerThatTires(3);
  const Done done = Poolmark(Quick(server, {"--find-knee", "--slo", "ttft=10s", "--rate", "0.001",
                                            "--duration", "200ms", "--out", out, "-o", "json"}));
  INFO(done.out << done.err);
  REQUIRE(done.code <= 1);
  return *ParseJson(done.out);
}

// On a machine that is too busy for even one request at its time, the knee is another one.
bool ClientTooSlow(const Json& sweep) {
  if (sweep["client_too_slow_above_knee"] != true) return false;
  WARN("the client was too slow for a level");
  return true;
}

void Write(const std::string& path, const Json& json) {
  REQUIRE(AtomicWriteFile(path, *DumpJson(json, 2)).ok());
}

}  // namespace

TEST_CASE("every level of a sweep has a directory of its own, however low the rates", "[live][E5]") {
  if (NoProgram()) return;
  const TempDir dir;
  const Json sweep = SlowSweep(dir / "sweep");
  std::set<std::string> names;
  for (const Json& level : sweep["levels"]) {
    const std::string name = level["directory"];
    INFO(name);
    CHECK(names.insert(name).second);
    const Json load = *ParseJson(*ReadFile(dir / ("sweep/" + name + "/load.json")));
    const auto rate = ParseRate(load["load"]["load"]["rate"].get<std::string>());
    REQUIRE(rate.ok());
    CHECK(rate->at(0).from == Approx(level["level"].get<double>()).epsilon(1e-9));
    CHECK(ReadRecords(dir / ("sweep/" + name + "/requests.jsonl.zst"))->size() == load["requests"]);
  }
  if (ClientTooSlow(sweep)) return;
  CHECK(sweep["knee"] == 0.004);
  CHECK(names.count("r0.001") + names.count("r0.002") + names.count("r0.004") == 3);
  CHECK(names.count("r0.0045") == 1);
  CHECK(names.size() == 8);
}

TEST_CASE("a report of a sweep computes every level again and names what differs", "[live][E5][K2]") {
  if (NoProgram()) return;
  const TempDir dir;
  const Json sweep = SlowSweep(dir / "o");
  const Done honest = Poolmark({dir / "o"}, "report");
  INFO(honest.out << honest.err);
  CHECK(honest.code == (sweep["knee"].is_null() ? 1 : 0));
  CHECK(honest.out.find("Every stored figure follows from the records.") != std::string::npos);

  Json none = sweep;
  none["levels"] = Json::array();
  none["knee"] = 5000;
  Write(dir / "o/knee.json", none);
  const Done empty = Poolmark({dir / "o"}, "report");
  INFO(empty.out);
  CHECK(empty.code == 3);
  CHECK(empty.out.find("differs: knee.json: knee is 5000, computed again null") != std::string::npos);
  if (ClientTooSlow(sweep)) return;

  // A result made up from end to end.
  Json forged = sweep;
  forged["knee"] = 5000;
  for (Json& level : forged["levels"]) {
    level["share"] = 0.5;
    level["summary"]["output_tokens_per_second"] = 99999;
    if (level["summary"]["ttft_ms"].is_object()) level["summary"]["ttft_ms"]["p99"] = 0.001;
    level["summary"]["client"]["loops"] = 77;
  }
  Write(dir / "o/knee.json", forged);
  const Done named = Poolmark({dir / "o"}, "report");
  INFO(named.out << named.err);
  CHECK(named.code == 3);
  for (const std::string expected :
       {"differs: knee.json: levels[0].share is 0.5, computed again 1.0",
        "differs: knee.json: levels[1].summary.ttft_ms.p99 is 0.001, computed again",
        "differs: knee.json: levels[2].summary.output_tokens_per_second is 99999, computed again",
        "differs: knee.json: levels[0].summary.client.loops is 77, computed again 1",
        "differs: knee.json: knee is 5000, computed again"}) {
    INFO(expected);
    CHECK(named.out.find(expected) != std::string::npos);
  }
  // The page has the figures of the records, and says what the file has otherwise.
  const std::string page = *ReadFile(dir / "o/report.html");
  CHECK(page.find("99,999") == std::string::npos);
  CHECK(page.find("Stored figures that do not follow from the records") != std::string::npos);
  const Json json = *ParseJson(Poolmark({dir / "o", "--json"}, "report").out);
  CHECK(json["knee"]["knee"] == 5000);
  CHECK(json["differences"].size() > 10);

  // A level that the search would not have asked for, and one that it would have.
  Json other = sweep;
  other["levels"].erase(other["levels"].size() - 1);
  Write(dir / "o/knee.json", other);
  CHECK(Poolmark({dir / "o"}, "report").code == 3);

  // A level's own file that its records do not give.
  Write(dir / "o/knee.json", sweep);
  const std::string first = sweep["levels"][0]["directory"];
  const Json load = *ParseJson(*ReadFile(dir / ("o/" + first + "/load.json")));
  Json changed = load;
  changed["ok"] = 12;
  Write(dir / ("o/" + first + "/load.json"), changed);
  const Done level = Poolmark({dir / "o"}, "report");
  CHECK(level.code == 3);
  CHECK(level.out.find("differs: " + first + "/load.json: ok is 12, computed again 1") != std::string::npos);
  Write(dir / ("o/" + first + "/load.json"), load);
  CHECK(Poolmark({dir / "o"}, "report").code == honest.code);

  // A directory that is not the sweep's, two levels in one, and records that are gone.
  for (const std::string name : {"../elsewhere", "..", "", "/tmp"}) {
    Json lured = sweep;
    lured["levels"][0]["directory"] = name;
    Write(dir / "o/knee.json", lured);
    const Done done = Poolmark({dir / "o"}, "report");
    INFO(name << done.out << done.err);
    CHECK(done.code == 3);
    CHECK(done.out.find("is no directory of the sweep") != std::string::npos);
  }
  Json same = sweep;
  same["levels"][0]["directory"] = same["levels"][1]["directory"];
  Write(dir / "o/knee.json", same);
  CHECK(Poolmark({dir / "o"}, "report").out.find("holds the records of another level") != std::string::npos);
  Write(dir / "o/knee.json", sweep);
  REQUIRE(RemoveTree(dir / ("o/" + first)).ok());
  const Done missing = Poolmark({dir / "o"}, "report");
  INFO(missing.out);
  CHECK(missing.code == 3);
  CHECK(missing.out.find("No knee is known, since the records of a level are missing") != std::string::npos);
  CHECK(missing.out.find("problem: level 0.00100: ") != std::string::npos);
  CHECK(missing.out.find("no records") != std::string::npos);
}

TEST_CASE("a sweep with --requests gives each rate the same time", "[live][E5]") {
  if (NoProgram()) return;
  TokenServer server = ServerThatTires(30);
  const Done done = Poolmark(
      Quick(server, {"--find-knee", "--slo", "ttft=10s", "--rate", "100", "-n", "10", "-o", "json"}));
  INFO(done.out << done.err);
  const Json sweep = *ParseJson(done.out);
  for (const Json& level : sweep["levels"]) {
    CHECK(level["directory"].is_null());
    CHECK(level["summary"]["requests"] == std::llround(level["level"].get<double>() / 10));
  }
  if (!ClientTooSlow(sweep)) CHECK(sweep["knee"] == 200);
}

TEST_CASE("a sweep refuses a first rate that is no number, and two lengths of a level", "[live][E5]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 1});
  for (const std::string rate : {"10:60s", "10-100:60s", "10abc", "x", "-5", "0", "inf", "nan", "1e300"}) {
    const Done done =
        Poolmark(Quick(server, {"--find-knee", "--slo", "ttft=1s", "--rate=" + rate, "--duration", "1s"}));
    INFO(rate << ": " << done.err);
    CHECK(done.code == 2);
    CHECK(done.err.find("rate '" + rate + "'") != std::string::npos);
  }
  const Done both =
      Poolmark(Quick(server, {"--find-knee", "--slo", "ttft=1s", "-c", "1", "-n", "9", "--duration", "1s"}));
  CHECK(both.code == 2);
  CHECK(both.err.find("both say how long a level lasts") != std::string::npos);
  CHECK(server.requests() == 0);
  // The first level is the end where it fails, and the words say so.
  TokenServer tired = ServerThatTires(0);
  const Done none = Poolmark(Quick(tired, {"--find-knee", "--slo", "ttft=1s", "--rate", "5", "-n", "5"}));
  INFO(none.out << none.err);
  CHECK(none.code == 1);
  const bool slow = none.out.find("client too slow") != std::string::npos;
  CHECK(none.out.find(slow ? "knee: none; at the first level this client was too slow"
                           : "knee: none; the first level already failed") != std::string::npos);
  CHECK(none.out.find("above it") == std::string::npos);
}

}  // namespace poolmark::load::test
