// What a load leaves behind: a page and figures that follow from its records, and figures even where the disk
// is full.
#include <sys/mount.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/json.h"
#include "common/report/load_report.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/program.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::Chunk;
using poolmark::test::ChunkedHead;
using poolmark::test::Process;
using poolmark::test::RawConnection;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;

constexpr char kHostile[] = "<script>alert(1)</script>";

// Every fifth request fails in the middle of its answer.
TokenServer FailingServer() {
  return TokenServer({.answer = [](RawConnection& connection, const std::string&, int number) {
    std::string answer = ChunkedHead();
    for (int i = 0; i < 3; ++i) answer += Chunk("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n");
    if (number % 5 == 0) return connection.Write(answer) && false;
    return connection.Write(answer + Chunk("data: [DONE]\n\n") + "0\r\n\r\n");
  }});
}

// Lets files grow to that many bytes only, as a disk that fills up.
std::vector<std::string> WithFileLimit(size_t bytes, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {
      "sh", "-c", "ulimit -f " + std::to_string(bytes / 512) + "; exec \"$@\"", "sh", kProgram, "load"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace

TEST_CASE("a load's page and figures follow from its records alone", "[live][K2]") {
  if (NoProgram()) return;
  TokenServer server = FailingServer();
  for (const std::vector<std::string>& level : std::vector<std::vector<std::string>>{
           {"-c", "4", "--warm-up-requests", "10"}, {"--rate", "200"}, {"-c", "4", "--processes", "2"}}) {
    const TempDir dir;
    std::vector<std::string> arguments = {"--url", server.url(), "--model",    kHostile, "-n",
                                          "100",   "--slo",      "ttft=500ms", "--out",  dir / "o"};
    arguments.insert(arguments.end(), level.begin(), level.end());
    REQUIRE(Poolmark(arguments).code == 0);
    const Done done = Poolmark({dir / "o"}, "report");
    INFO(done.out << done.err);
    CHECK(done.code == 0);
    CHECK(done.out.find("Every stored figure follows from the records.") != std::string::npos);
    const std::string page = *ReadFile(dir / "o/report.html");
    CHECK(page.find(kHostile) == std::string::npos);
    CHECK(page.find("&lt;script&gt;alert(1)") != std::string::npos);
    CHECK(page.find("http-equiv=\"Content-Security-Policy\"") != std::string::npos);

    const auto report = report::ReadLoadReport(dir / "o");
    REQUIRE(report.ok());
    std::vector<std::string> ids, failures;
    for (const auto& chart : report::LoadCharts(*report)) {
      ids.push_back(chart.id);
      if (chart.id != "time") continue;
      for (const auto& other : chart.others) {
        if (other.name == "Failures") failures.push_back(other.series.at(0).label);
      }
    }
    CHECK(ids == std::vector<std::string>{"ttft", "gaps", "time", "timeline", "goodput"});
    CHECK(failures.size() == 1);
    // What arrived over time is what the records hold, and each request is started and ended once.
    const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
    uint64_t tokens = 0, started = 0, ended = 0;
    for (const RequestRecord& record : *records) tokens += record.events.size();
    double binned = 0;
    for (const auto& bin : report->bins) {
      binned += bin.output_tokens;
      started += bin.started;
      for (const uint64_t n : bin.ended) ended += n;
    }
    CHECK(binned == static_cast<double>(tokens));
    CHECK(started == records->size());
    CHECK(ended == records->size());
  }
}

TEST_CASE("stored figures that the records do not give are named", "[live][K2]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-c", "2", "-n", "20", "--out", dir / "o"})).code == 0);
  Json json = *ParseJson(*ReadFile(dir / "o/load.json"));
  json["ttft_ms"]["p99"] = json["ttft_ms"]["p99"].get<double>() / 2;
  json["ok"] = 21;
  REQUIRE(AtomicWriteFile(dir / "o/load.json", *DumpJson(json)).ok());
  const Done done = Poolmark({dir / "o"}, "report");
  INFO(done.out << done.err);
  CHECK(done.code == 3);
  CHECK(done.out.find("differs: load.json: ttft_ms.p99 is ") != std::string::npos);
  CHECK(done.out.find("differs: load.json: ok is 21, computed again 20") != std::string::npos);
  // Not a load.json of ours, or records torn off: refused with the file's name.
  json.erase("client");
  REQUIRE(AtomicWriteFile(dir / "o/load.json", *DumpJson(json)).ok());
  CHECK(Poolmark({dir / "o"}, "report").err.find("load.json") != std::string::npos);
  CHECK(Poolmark({dir / "o"}, "report").code == 2);
}

TEST_CASE("marks and warnings that a load.json lacks are named", "[live][K2]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-c", "2", "-n", "20", "--out", dir / "o"})).code == 0);
  const Json whole = *ParseJson(*ReadFile(dir / "o/load.json"));
  const auto report = [&](const Json& json) {
    REQUIRE(AtomicWriteFile(dir / "o/load.json", *DumpJson(json)).ok());
    return Poolmark({dir / "o"}, "report");
  };
  // Figures by which the program was too slow, and no word of it.
  Json json = whole;
  json["client"]["processor_wait_share"] = 0.5;
  json["client"]["limited"] = false;
  json["warnings"] = Json::array();
  json["notes"] = Json::array();
  Done done = report(json);
  INFO(done.out << done.err);
  CHECK(done.code == 3);
  CHECK(done.out.find("differs: load.json: client.limited is false, computed again true") !=
        std::string::npos);
  CHECK(done.out.find("differs: load.json: warnings is without it, computed again Less than 300 s") !=
        std::string::npos);
  CHECK(done.out.find("warning: Less than 300 s was measured.") != std::string::npos);
  CHECK(done.out.find("ready to run and had no processor 50 % of the time") != std::string::npos);
  // A merge may say more than the sum of all gives.
  json = whole;
  json["client"]["limited"] = true;
  json["notes"].push_back("worker 1 was too slow for its part");
  done = report(json);
  INFO(done.out << done.err);
  CHECK(done.code == 0);
  CHECK(done.out.find("worker 1 was too slow for its part") != std::string::npos);
  CHECK(done.out.find(" *") != std::string::npos);
}

TEST_CASE("a disk that fills up costs records and no figures", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3});
  for (const char* processes : {"1", "2"}) {
    const TempDir dir;
    Process process(WithFileLimit(16384, Quick(server, {"-c", "8", "-n", "3000", "--processes", processes,
                                                        "--out", dir / "o", "-o", "json"})),
                    dir / "run");
    const auto code = process.Wait(120000);
    INFO("processes " << processes << "\n" << process.err());
    CHECK(code.value_or(-1) == 1);
    CHECK(process.err().find("writing: File too large") != std::string::npos);
    const Json summary = *ParseJson(process.out());
    CHECK(summary["files_error"].is_string());
    const uint64_t measured = summary["requests"];
    if (std::string(processes) == "1") CHECK(measured == 3000);
    // What the file says is what was printed, and the first records are there.
    Json stored = *ParseJson(*ReadFile(dir / "o/load.json"));
    CHECK(stored["requests"] == measured);
    CHECK(stored["ttft_ms"] == summary["ttft_ms"]);
    CHECK(stored["files_error"] == summary["files_error"]);
    CHECK(FileExists(dir / "o/timeline.jsonl"));
    CHECK_FALSE(FileExists(dir / "o/requests.jsonl.zst"));
    // Of two processes one may have had few enough requests.
    std::string part = dir / "o/requests.partial.jsonl.zst";
    for (const char* name : {"o/requests.0.part.partial.jsonl.zst", "o/requests.1.part.partial.jsonl.zst"}) {
      if (FileExists(dir / name)) part = dir / name;
    }
    const auto reader = RecordReader::Open(part);
    REQUIRE(reader.ok());
    RequestRecord record;
    uint64_t kept = 0;
    Result<bool> more = true;
    while ((more = (*reader)->Next(&record)).ok() && *more) ++kept;
    CHECK(kept > 10);
    CHECK_FALSE(more.ok());  // torn off, and said so
    // A report of it says why there is none.
    const Done report = Poolmark({dir / "o"}, "report");
    CHECK(report.code == 2);
    CHECK(report.err.find("its records are not complete") != std::string::npos);
  }
}

TEST_CASE("on a full disk the figures take the place of records", "[live]") {
  if (NoProgram()) return;
  const TempDir dir;
  REQUIRE(MakeDirs(dir / "disk").ok());
  if (mount("tmpfs", (dir / "disk").c_str(), "tmpfs", MS_NOSUID, "size=64k") != 0) {
    WARN("skipped: no right to mount a file system here");
    return;
  }
  TokenServer server({.tokens = 3});
  const Done done = Poolmark(Quick(server, {"-c", "8", "-n", "6000", "--out", dir / "disk/o"}));
  const auto stored = ReadFile(dir / "disk/o/load.json");
  const bool partial = FileExists(dir / "disk/o/requests.partial.jsonl.zst");
  umount2((dir / "disk").c_str(), MNT_DETACH);
  INFO(done.out << done.err);
  CHECK(done.code == 1);
  CHECK(done.out.find("6000 in the window, 6000 ok") != std::string::npos);
  CHECK(done.out.find("error: the files are not complete") != std::string::npos);
  CHECK(done.err.find("No space left on device") != std::string::npos);
  CHECK(partial);
  REQUIRE(stored.ok());
  CHECK((*ParseJson(*stored))["requests"] == 6000);
}

}  // namespace poolmark::load::test
