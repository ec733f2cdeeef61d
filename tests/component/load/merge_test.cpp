// What workers say of themselves is in the merged load, too.
#include "common/load/merge.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/load/recompute.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/plans.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::Chunk;
using poolmark::test::ChunkedHead;
using poolmark::test::RawConnection;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;

// Answers two requests of each connection and closes it at the third one, without having said so.
TokenServer ForgetfulServer() {
  return TokenServer({.answer = [](RawConnection& connection, const std::string&, int) {
    thread_local int served = 0;  // a thread has one connection
    return ++served < 3 &&
           connection.Write(
               ChunkedHead() +
               Chunk(
                   "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[],\"usage\":"
                   "{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n") +
               "0\r\n\r\n");
  }});
}

// Two workers of one load of six users, in directories w0 and w1.
void RunWorkers(const TokenServer& server, const TempDir& dir) {
  const int64_t start = Soon();
  std::map<std::string, Json> plans;
  for (int worker = 0; worker < 2; ++worker)
    plans["w" + std::to_string(worker)] =
        PlanOf(server, Synthetic(120), {{"concurrency", 6}}, WorkerOf(worker, 2, start));
  RunPlans(dir, plans);
}

Json Stored(const std::string& directory) {
  return *ParseJson(*ReadFile(JoinPath(directory, "load.json")));
}

bool Says(const Json& load, const std::string& text) {
  return std::any_of(load["notes"].begin(), load["notes"].end(), [&](const Json& note) {
    return note.get<std::string>().find(text) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a merge keeps what the workers say of themselves", "[live]") {
  if (NoProgram()) return;
  TokenServer server = ForgetfulServer();
  const TempDir dir;
  RunWorkers(server, dir);
  Json first = Stored(dir / "w0"), second = Stored(dir / "w1");
  const auto stale = [](const Json& load) { return load["client"]["stale_requests"].get<uint64_t>(); };
  // Every third request of a connection, of 60 each.
  CHECK(stale(first) > 10);
  CHECK(stale(second) > 10);
  CHECK(Says(first, std::to_string(stale(first)) + " requests failed since the server had closed"));

  // What this machine may not have measured: other figures of the program about itself, and other notes.
  first["client"]["processor_wait_share"] = 0.01;
  second["client"]["processor_wait_share"] = 0.04;
  first["client"]["connection_wait_max_ms"] = 30.5;
  second["client"]["connection_wait_max_ms"] = nullptr;
  first["client"]["absurd_usages"] = 2;
  second["client"]["absurd_usages"] = 3;
  second["notes"].push_back("a third of the fans stood still");
  first["interrupted"] = true;
  REQUIRE(AtomicWriteFile(dir / "w0/load.json", *DumpJson(first)).ok());
  REQUIRE(AtomicWriteFile(dir / "w1/load.json", *DumpJson(second)).ok());
  const auto merged =
      MergeLoads({{dir / "w0", Nanoseconds(0)}, {dir / "w1", Nanoseconds(0)}}, dir / "all", std::nullopt);
  INFO(merged.status());
  REQUIRE(merged.ok());
  const Json all = Stored(dir / "all");
  INFO(all["client"].dump() << all["notes"].dump(1));
  CHECK(stale(all) == stale(first) + stale(second));
  CHECK(Says(all, std::to_string(stale(all)) + " requests failed since the server had closed"));
  CHECK(all["client"]["processor_wait_share"] == 0.04);
  CHECK(all["client"]["connection_wait_max_ms"] == 30.5);
  CHECK(Says(all, "more than 1,000,000,000 tokens in 5 requests"));
  CHECK(Says(all, "worker 1: a third of the fans stood still"));
  CHECK(Says(all, "the load was interrupted"));
  // What the whole says with its own figures, no worker says beside it.
  CHECK_FALSE(Says(all, "worker 0: " + std::to_string(stale(first)) + " requests failed"));
  // A report of the merged load has them, too.
  const auto again = ReadLoad(dir / "all");
  REQUIRE(again.ok());
  CHECK(again->summary.client.stale_requests == stale(all));
  CHECK(again->summary.client.absurd_usages == 5);
  CHECK(again->options.users == 6);
  CHECK(again->options.workers == 1);

  // Records that are not complete are no part of a load.
  second["files_error"] = "writing: No space left on device";
  REQUIRE(AtomicWriteFile(dir / "w1/load.json", *DumpJson(second)).ok());
  const Done refused = Poolmark({"--merge", dir / "w0," + (dir / "w1"), "--out", dir / "again"});
  CHECK(refused.code == 2);
  CHECK(refused.err.find("its records are not complete (writing: No space left on device)") !=
        std::string::npos);
}

TEST_CASE("a worker compares what was in flight with its own users", "[C21]") {
  const auto note = [](uint32_t worker, uint32_t workers, double in_flight) {
    LoadOptions options;
    options.users = 7;
    options.worker = worker;
    options.workers = workers;
    ClientFigures client;
    client.achieved_concurrency = in_flight;
    const Summary summary = Summarize(Accumulator(), {0, 1'000'000'000, true, 1'000'000'000, 1'000'000'000},
                                      options, client, std::nullopt, {});
    for (const std::string& text : summary.notes) {
      if (text.find("were in flight on average") != std::string::npos) return text;
    }
    return std::string();
  };
  CHECK(note(0, 2, 4).empty());  // users 0, 2, 4 and 6
  CHECK(note(1, 2, 3).empty());  // users 1, 3 and 5
  CHECK(note(1, 2, 2.5).find("2.5 requests were in flight on average for 3 users") == 0);
  CHECK(note(0, 1, 4).find("for 7 users") != std::string::npos);
}

}  // namespace poolmark::load::test
