// The reuse that is sent is the reuse that is planned, request by request: what the simulated engine says it
// had of each prompt in its cache against the plan of the workload, for every shape.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/results/reuse_facts.h"
#include "common/workload/reuse.h"
#include "common/workload/source.h"
#include "common/workload/spec.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/program.h"
#include "tests/component/load/sim_engine.h"
#include "tests/support/shared_data.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::TempDir;

constexpr uint32_t kBlock = 16;

// One prompt after the other, so that the order in which they came is known; to a cache that holds them all.
void CheckEach(const Json& workload, const Json& load, size_t requests) {
  const SimEngine engine({"--gpu-cache-tokens", "2000000", "--block-size", std::to_string(kBlock),
                          "--kv-bytes-per-token", "1", "--prefill-rate", "2000000", "--decode-step", "1ms"});
  const TempDir dir;
  Json sent = workload;
  sent["model"] = "sim";
  const Json plan = {{"schema_version", 1},
                     {"urls", {engine.url()}},
                     {"workload", sent},
                     {"load", load},
                     {"out", dir / "out"}};
  REQUIRE(AtomicWriteFile(dir / "plan.json", *DumpJson(plan)).ok());
  const Done done = Poolmark({"--plan", dir / "plan.json"});
  INFO(workload.dump() << "\n" << done.out << done.err);
  REQUIRE(done.code == 0);
  auto records = ReadRecords(dir / "out/requests.jsonl.zst");
  REQUIRE(records.ok());
  REQUIRE(records->size() == requests);
  std::sort(records->begin(), records->end(),
            [](const RequestRecord& a, const RequestRecord& b) { return a.sent < b.sent; });

  const auto spec = workload::ParseWorkload(sent);
  REQUIRE(spec.ok());
  const auto source = workload::OpenWorkload(*spec);
  REQUIRE(source.ok());
  std::vector<workload::Arrival> arrivals;
  for (size_t i = 0; i < records->size(); ++i) {
    const RequestRecord& record = (*records)[i];
    if (i > 0) REQUIRE(record.sent > (*records)[i - 1].end);
    arrivals.push_back(
        {record.session, record.turn, Nanoseconds(record.sent), Nanoseconds(record.end), true});
  }
  workload::ReuseOptions options;
  options.block_tokens = kBlock;
  options.keep_each = true;
  const workload::Reuse planned = workload::Analyse(**source, arrivals, options);
  REQUIRE(planned.reusable_of.size() == records->size());
  int64_t reused = 0;
  for (size_t i = 0; i < records->size(); ++i) {
    const RequestRecord& record = (*records)[i];
    INFO("session " << record.session << " turn " << record.turn);
    REQUIRE(record.outcome == Outcome::kOk);
    CHECK(record.input_tokens == record.planned_input_tokens);
    CHECK(record.cached_tokens == planned.reusable_of[i]);
    reused += record.cached_tokens.value_or(0);
  }
  CHECK(reused == planned.reusable_tokens);
  CHECK(reused > 0);
}

void CheckEach(const Json& workload, size_t requests) {
  CheckEach(workload, {{"concurrency", 1}}, requests);
}

std::string WriteLines(const std::string& path, const std::vector<Json>& lines) {
  std::string text;
  for (const Json& line : lines) text += *DumpJson(line) + "\n";
  REQUIRE(AtomicWriteFile(path, text).ok());
  return path;
}

// Chat, one session after the other: what is reusable is measured by the records, and an engine that holds
// everything reuses just that. Returns it with the tokens that were planned and sent.
struct ChatRun {
  results::ReuseFacts reuse;
  int64_t planned = 0, sent = 0;
};
ChatRun CheckChat(const Json& settings, size_t requests, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {
      "--gpu-cache-tokens",   "2000000", "--block-size",   std::to_string(kBlock),
      "--kv-bytes-per-token", "1",       "--prefill-rate", "2000000",
      "--decode-step",        "100us"};
  words.insert(words.end(), more.begin(), more.end());
  const SimEngine engine(words);
  const TempDir dir;
  Json workload = settings;
  workload.update(Json{{"shape", "synthetic"}, {"api", "chat"}, {"think", 0}, {"model", "sim"}});
  const Json plan = {{"schema_version", 1},          {"urls", {engine.url()}},       {"workload", workload},
                     {"tokenize_url", engine.url()}, {"load", {{"concurrency", 1}}}, {"out", dir / "out"}};
  REQUIRE(AtomicWriteFile(dir / "plan.json", *DumpJson(plan)).ok());
  const Done done = Poolmark({"--plan", dir / "plan.json"});
  INFO(done.out << done.err);
  REQUIRE(done.code == 0);
  const auto records = ReadRecords(dir / "out/requests.jsonl.zst");
  REQUIRE(records.ok());
  REQUIRE(records->size() == requests);
  ChatRun out;
  int64_t cached = 0;
  for (const RequestRecord& record : *records) {
    REQUIRE(record.outcome == Outcome::kOk);
    out.planned += record.planned_input_tokens;
    out.sent += record.input_tokens.value_or(0);
    cached += record.cached_tokens.value_or(0);
  }
  const results::WorkloadInput input{*DumpJson(workload), "", "c1"};
  const auto reuse = results::MeasureReuse(input, dir / "out/requests.jsonl.zst", 0, 1e6, kBlock);
  INFO(reuse.status().ToString());
  REQUIRE(reuse.ok());
  out.reuse = *reuse;
  if (!out.reuse.reusable.has_value()) FAIL(out.reuse.reusable.reason());
  const double reused = static_cast<double>(cached) / static_cast<double>(out.sent);
  CHECK(*out.reuse.reusable == Approx(reused).epsilon(1e-9));
  CHECK(out.reuse.curve.back().second == Approx(reused).epsilon(1e-9));
  return out;
}

const Json kLive = {{"answers", "live"}, {"sessions", 4}, {"groups", 4},  {"prefix", 0},
                    {"turns", 4},        {"input", 64},   {"growth", 32}, {"output", 160}};

bool NoEngine() {
  return NoProgram() || !FileExists(poolmark::test::BuiltProgram("poolmark-sim"));
}

}  // namespace

TEST_CASE("each prompt of a synthetic workload finds in the cache what was planned", "[B2][D3][live]") {
  if (NoEngine()) return;
  CheckEach({{"shape", "synthetic"},
             {"sessions", 12},
             {"groups", 3},
             {"prefix", 200},
             {"turns", 4},
             {"input", 50},
             {"growth", 30},
             {"output", 20},
             {"think", 0}},
            48);
}

TEST_CASE("each prompt of users with one system prompt finds in the cache what was planned",
          "[B2][D2][live]") {
  if (NoEngine()) return;
  CheckEach({{"shape", "shared-prompt"},
             {"sessions", 6},
             {"prefix", 300},
             {"history", 100},
             {"turns", 3},
             {"input", 40},
             {"output", 24}},
            18);
}

TEST_CASE("each prompt of a trace finds in the cache what was planned", "[B2][D4][live]") {
  if (NoEngine()) return;
  const TempDir dir;
  std::vector<Json> lines;
  for (int i = 0; i < 12; ++i) {
    const Json blocks = i % 4 == 3 ? Json{0, 1 + i % 3, 100 + i} : Json{0, 1 + i % 3, 7, 100 + i};
    lines.push_back({{"timestamp", 400 * i},
                     {"input_length", 512 * blocks.size() - 100},
                     {"output_length", 160},
                     {"hash_ids", blocks}});
  }
  CheckEach({{"shape", "trace"},
             {"format", "mooncake"},
             {"file", WriteLines(dir / "trace.jsonl", lines)},
             {"token_scale", "1/8"}},
            {{"speedup", 1}}, lines.size());
}

TEST_CASE("each prompt of recorded sessions finds in the cache what was planned", "[B2][D1][live]") {
  if (NoEngine()) return;
  const TempDir dir;
  const auto request = [](double at, const Json& blocks, int more, int out) {
    return Json{{"t", at},    {"type", "n"},        {"in", 64 * blocks.size() + more},
                {"out", out}, {"hash_ids", blocks}, {"api_time", 0.1}};
  };
  std::vector<Json> sessions;
  for (int s = 0; s < 4; ++s) {
    Json requests = Json::array(), blocks = {0, 1, 2, 3, 4, 5};
    for (int r = 0; r < 5; ++r) {
      requests.push_back(request(r, blocks, 17, 10));
      blocks.push_back(10 + r);
    }
    sessions.push_back({{"id", "s" + std::to_string(s)},
                        {"block_size", 64},
                        {"hash_id_scope", "local"},
                        {"requests", requests}});
  }
  CheckEach({{"shape", "agentic"}, {"file", WriteLines(dir / "sessions.jsonl", sessions)}, {"think", "none"}},
            20);
}

TEST_CASE("live answers of their planned length are reused as planned", "[B2][D3][live]") {
  if (NoEngine()) return;
  const ChatRun run = CheckChat(kLive, 16);
  CHECK(run.sent == run.planned);
  CHECK(*run.reuse.reusable > 0.85);
  CHECK(run.reuse.notes.empty());
}

TEST_CASE("live answers of a reasoning model: what is reusable is of the prompts that were sent",
          "[B2][B4][D3][live]") {
  if (NoEngine()) return;
  const ChatRun run = CheckChat(kLive, 16, {"--reasoning-tokens", "100"});
  CHECK(run.planned - run.sent == 4 * 100 * (1 + 2 + 3));
  CHECK(*run.reuse.reusable < 0.7);
  REQUIRE(run.reuse.notes.size() == 2);
  CHECK_THAT(run.reuse.notes[0], Catch::Contains("2400 tokens fewer than planned"));
  CHECK_THAT(run.reuse.notes[1], Catch::Contains("12 of 12 live answers stand in the next prompt without"));
}

TEST_CASE("the chat template's tokens are in what is reusable, and move its blocks", "[B2][B4][live]") {
  if (NoEngine()) return;
  // 44 words with the template's 4 tokens before them make three whole blocks, without them two.
  const ChatRun one = CheckChat(
      {{"sessions", 10}, {"groups", 1}, {"prefix", 44}, {"turns", 1}, {"input", 20}, {"output", 4}}, 10);
  CHECK(one.sent == 10 * 70);
  CHECK(*one.reuse.reusable == Approx(9 * 48.0 / 700));
  REQUIRE(one.reuse.notes.size() == 1);
  CHECK_THAT(one.reuse.notes[0], Catch::Contains("conversations of one length"));
  const ChatRun more = CheckChat({{"sessions", 6},
                                  {"groups", 2},
                                  {"prefix", 60},
                                  {"turns", 4},
                                  {"input", 20},
                                  {"growth", 13},
                                  {"output", 15}},
                                 24);
  CHECK(more.reuse.notes.empty());
}

}  // namespace poolmark::load::test
