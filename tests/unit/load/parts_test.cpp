// The pure parts: arrivals, sessions, records, summary.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/base/random.h"
#include "common/base/zstd_file.h"
#include "common/load/accumulator.h"
#include "common/load/arrivals.h"
#include "common/load/quick_source.h"
#include "common/load/record_codec.h"
#include "common/load/record_scan.h"
#include "common/load/session_run.h"
#include "common/load/summary.h"
#include "tests/support/temp_dir.h"

namespace poolmark::load {

namespace {
std::vector<double> Draw(const std::string& rate, ArrivalOptions::Kind kind, double cv, size_t most) {
  ArrivalOptions options;
  options.steps = *ParseRate(rate);
  options.kind = kind;
  options.cv = cv;
  ArrivalSchedule schedule(options);
  std::vector<double> times;
  while (times.size() < most) {
    const auto at = schedule.Next();
    if (!at.has_value()) break;
    times.push_back(std::chrono::duration<double>(*at).count());
  }
  return times;
}

std::pair<double, double> MeanAndCv(const std::vector<double>& times) {
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  double square = 0;
  for (const double gap : gaps) square += (gap - mean) * (gap - mean);
  return {mean, std::sqrt(square / static_cast<double>(gaps.size())) / mean};
}
}  // namespace

TEST_CASE("arrivals keep their rate and their spread", "[C22]") {
  const std::vector<double> constant = Draw("100", ArrivalOptions::Kind::kConstant, 1, 1000);
  CHECK(constant[0] == 0);
  CHECK(constant[999] == Approx(9.99).margin(1e-8));
  CHECK(MeanAndCv(constant).second < 1e-6);
  const auto [poisson_mean, poisson_cv] = MeanAndCv(Draw("100", ArrivalOptions::Kind::kPoisson, 1, 40000));
  CHECK(poisson_mean == Approx(0.01).epsilon(0.02));
  CHECK(poisson_cv == Approx(1).epsilon(0.02));
  for (const double cv : {0.3, 2.0}) {
    const auto [mean, spread] = MeanAndCv(Draw("100", ArrivalOptions::Kind::kGamma, cv, 40000));
    CHECK(mean == Approx(0.01).epsilon(0.04));
    CHECK(spread == Approx(cv).epsilon(0.05));
  }
  // Steps and ramps: as many arrivals as the area under the rate, and none after the end.
  const std::vector<double> steps = Draw("10:10s,100:10s", ArrivalOptions::Kind::kConstant, 1, 100000);
  CHECK(steps.size() == 1100);
  CHECK(std::count_if(steps.begin(), steps.end(), [](double t) { return t < 10; }) == 100);
  const std::vector<double> ramp = Draw("0-100:20s", ArrivalOptions::Kind::kConstant, 1, 100000);
  CHECK(ramp.size() == 1000);
  CHECK(std::count_if(ramp.begin(), ramp.end(), [](double t) { return t < 10; }) == 250);
  CHECK(std::is_sorted(ramp.begin(), ramp.end()));
  CHECK(Draw("100-0:20s", ArrivalOptions::Kind::kPoisson, 1, 100000).size() == Approx(1000).epsilon(0.15));
  CHECK(Draw("100", ArrivalOptions::Kind::kPoisson, 1, 50) ==
        Draw("100", ArrivalOptions::Kind::kPoisson, 1, 50));
  for (const std::string bad : {"", "x", "-1", "10-20", "10,20:5s", "0", "1:0s", "1e9", "10:x"}) {
    INFO(bad);
    CHECK_FALSE(ParseRate(bad).ok());
  }
}

namespace {
class GraphSession final : public Session {
 public:
  explicit GraphSession(std::vector<std::vector<uint32_t>> after) : after_(std::move(after)) {}
  std::string_view id() const override { return "g"; }
  size_t turns() const override { return after_.size(); }
  TurnPlan turn(size_t index) const override {
    TurnPlan plan;
    plan.after = after_[index];
    return plan;
  }
  void Render(size_t, std::string*) override {}

 private:
  std::vector<std::vector<uint32_t>> after_;
};
}  // namespace

TEST_CASE("turns start when the turns they wait for have ended") {
  std::vector<uint32_t> ready;
  SessionRun chain(std::make_unique<GraphSession>(std::vector<std::vector<uint32_t>>(3)), 0, -1);
  chain.Begin(&ready);
  CHECK(ready == std::vector<uint32_t>{0});
  ready.clear();
  chain.Ended(0, &ready);
  CHECK(ready == std::vector<uint32_t>{1});
  CHECK(chain.more());
  CHECK(chain.Abandon() == 1);
  ready.clear();
  chain.Ended(1, &ready);
  CHECK(ready.empty());
  CHECK(chain.over());

  // 0 -> (1, 2 beside each other) -> 3; 4 waits for 1 alone. A wait for itself or a later turn is void.
  SessionRun graph(
      std::make_unique<GraphSession>(std::vector<std::vector<uint32_t>>{{}, {0}, {0, 0}, {1, 2}, {1, 4}}), 0,
      -1);
  ready.clear();
  graph.Begin(&ready);
  CHECK(ready == std::vector<uint32_t>{0});
  ready.clear();
  graph.Ended(0, &ready);
  CHECK(ready == std::vector<uint32_t>{1, 2});
  ready.clear();
  graph.Ended(1, &ready);
  CHECK(ready == std::vector<uint32_t>{4});
  graph.Ended(2, &ready);
  CHECK(ready == std::vector<uint32_t>{4, 3});
  CHECK_FALSE(graph.over());
  graph.Ended(3, &ready);
  graph.Ended(4, &ready);
  CHECK(graph.over());
  CHECK_FALSE(graph.more());
}

namespace {
RequestRecord FullRecord() {
  RequestRecord record;
  record.session = 12;
  record.turn = 3;
  record.session_id = "s\"1\n\xff";
  record.agent = "agent_001";
  record.primer = true;
  record.target = 1;
  record.intended = 1000;
  record.started = 1100;
  record.sent = 1200;
  record.connect = 77;
  record.first_byte = 2000;
  record.first_output = 3000;
  record.first_answer_output = 3500;
  record.last_output = 9000;
  record.end = 9100;
  record.kernel_first_output = 2990;
  record.kernel_last_output = 8990;
  record.lateness = 10;
  record.events = {{3000, 2}, {3500, 1}, {9000, 4}};
  record.planned_input_tokens = 100;
  record.input_tokens = 101;
  record.cached_tokens = 64;
  record.output_tokens = 7;
  record.first_event_tokens = 2;
  record.event_tokens_known = true;
  record.outcome = Outcome::kErrorEvent;
  record.http_status = 200;
  record.attempts = 2;
  record.error = "died";
  record.finish_reason = "stop";
  return record;
}
}  // namespace

TEST_CASE("a record reads back as it was written", "[F2]") {
  const test::TempDir dir;
  RequestRecord odd = FullRecord();
  RequestRecord bare;
  bare.outcome = Outcome::kConnect;
  std::string text;
  AppendRecord(odd, &text);
  AppendRecord(bare, &text);
  auto writer = ZstdWriter::Create(dir / "r.jsonl.zst");
  REQUIRE((*writer)->Write(text).ok());
  REQUIRE((*writer)->Finish().ok());
  const auto records = ReadRecords(dir / "r.jsonl.zst");
  INFO(records.status());
  REQUIRE(records.ok());
  REQUIRE(records->size() == 2);
  odd.session_id = "s\"1\n\xef\xbf\xbd";  // invalid UTF-8 is replaced
  CHECK((*records)[0] == odd);
  CHECK((*records)[1] == bare);
}

TEST_CASE("broken record lines are refused with their place") {
  std::string text;
  AppendRecord(FullRecord(), &text);
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string line = text;
    const size_t at = line.find(from);
    REQUIRE(at != std::string::npos);
    line.replace(at, from.size(), to);
    const auto record = ParseRecord(line, "f:7");
    INFO(line);
    REQUIRE_FALSE(record.ok());
    CHECK(std::string(record.status().message()).starts_with("f:7"));
  };
  broken("\"error_event\"", "\"unheard\"");
  broken("\"session\":12", "\"session\":-1");
  broken("\"session\":12", "\"session\":\"12\"");
  broken("\"turn\":3", "\"turn\":3.5");
  broken("\"started\":1100", "\"start\":1100");
  broken("\"events\":[3000", "\"events\":[\"x\"");
  broken("\"event_tokens\":[2,", "\"event_tokens\":[");
  broken("\"event_tokens\":[2,", "\"event_tokens\":[4294967296,");
  broken("\"events\":[3000", "\"events\":[9223372036854775807");
  broken("\"events\":[3000", "\"events\":[2305843009213693952");  // 73 years
  broken("\"started\":1100", "\"started\":9223372036854775808");
  broken("\"started\":1100", "\"started\":-2305843009213693952");
  broken("\"last_output\":9000", "\"last_output\":null");
  broken("{", "[");
  RequestRecord silent;
  text.clear();
  AppendRecord(silent, &text);  // it says ok, without any output
  broken("\"outcome\":\"ok\"", "\"outcome\":\"ok\"");
}

namespace {

// Whether both parsers were asked and say the same; a space before a line takes the full one.
bool Agree(const std::string& line) {
  const auto fast = ParseRecord(line, "f:1"), full = ParseRecord(" " + line, "f:1");
  return fast.ok() == full.ok() && (!fast.ok() || *fast == *full);
}

}  // namespace

TEST_CASE("the fast way to read a record gives what the full parser gives", "[F2]") {
  std::vector<std::string> lines;
  RequestRecord plain = FullRecord(), ones = FullRecord(), none;
  plain.session_id = "s-12";
  ones.session_id = "s-13";
  for (OutputEvent& event : ones.events) event.tokens = 1;
  ones.outcome = Outcome::kOk;
  ones.error.clear();
  none.outcome = Outcome::kConnect;
  none.agent = "sub";
  none.primer = true;
  none.sent = -5;
  for (const RequestRecord& record : {plain, ones, none, FullRecord()}) {
    std::string line;
    AppendRecord(record, &line);
    line.pop_back();
    lines.push_back(line);
  }
  RequestRecord read;
  for (size_t i = 0; i < 3; ++i) {
    INFO(lines[i]);
    REQUIRE(ScanRecord(lines[i], &read));
    CHECK(read == *ParseRecord(" " + lines[i], "f:1"));
  }
  CHECK_FALSE(ScanRecord(lines[3], &read));  // a text with escapes
  // Every line cut, and with every byte changed to what a number, a text or a list may hold.
  const std::string bytes = "0159-+.eE,:\"\\[]{}ntx \t\x7f\xc3";
  for (const std::string& line : lines) {
    for (size_t at = 0; at < line.size(); ++at) {
      if (!Agree(line.substr(0, at))) FAIL(line.substr(0, at));
      for (const char byte : bytes) {
        std::string changed = line;
        changed[at] = byte;
        if (!Agree(changed)) FAIL(changed);
        changed = line;
        changed.insert(at, 1, byte);
        if (!Agree(changed)) FAIL(changed);
      }
    }
  }
  // Numbers at the ends of what fits.
  for (const char* number : {"0",
                             "-0",
                             "00",
                             "01",
                             "-1",
                             "2147483647",
                             "2147483648",
                             "4294967295",
                             "4294967296",
                             "999999999999999999",
                             "1000000000000000000",
                             "9223372036854775807",
                             "9223372036854775808",
                             "18446744073709551615",
                             "18446744073709551616",
                             "-9223372036854775808",
                             "-9223372036854775809",
                             "1.0",
                             "1e3",
                             "null",
                             "true"}) {
    for (const std::string& line : lines) {
      for (size_t at = line.find(':'); at != std::string::npos; at = line.find(':', at + 1)) {
        const size_t end = line.find_first_of(",}", at);
        const std::string changed = line.substr(0, at + 1) + number + line.substr(end);
        if (!Agree(changed)) FAIL(changed);
      }
      const std::string events = "\"events\":[";
      std::string changed = line;
      changed.insert(changed.find(events) + events.size(), std::string(number) + ",");
      if (!Agree(changed)) FAIL(changed);
    }
  }
}

namespace {
RequestRecord Good(int64_t started, int64_t ttft, int tokens, int64_t gap) {
  RequestRecord record;
  record.started = record.sent = started;
  for (int i = 0; i < tokens; ++i) record.events.push_back({started + ttft + gap * i, 1});
  record.first_output = record.events.front().at;
  record.last_output = record.events.back().at;
  record.end = *record.last_output;
  record.output_tokens = tokens;
  record.input_tokens = 10;
  return record;
}
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
}  // namespace

TEST_CASE("only requests that start in the window count, drain included", "[H3][H4]") {
  Accumulator all;
  all.Add(Good(0, 500 * kMs, 11, 10 * kMs), 10 * kSecond);  // warm-up
  for (int i = 0; i < 10; ++i) all.Add(Good((10 + i) * kSecond, 100 * kMs, 11, 10 * kMs), 10 * kSecond);
  all.Add(Good(20 * kSecond - 1, 30 * kSecond, 11, 10 * kMs), 10 * kSecond);  // ends in the drain
  RequestRecord primer = Good(12 * kSecond, 1, 2, 1);
  primer.primer = true;
  all.Add(primer, 10 * kSecond);
  LoadOptions options;
  options.duration = std::chrono::seconds(20);
  options.warm_up = std::chrono::seconds(10);
  Slo slo = *ParseSlo("ttft=200ms,tpot=20ms");
  const Summary summary = Summarize(all, {10 * kSecond, 20 * kSecond, false, 20 * kSecond, 51 * kSecond},
                                    options, {}, slo, {"said"});
  CHECK(summary.requests == 11);
  CHECK(summary.ok == 11);
  CHECK(summary.warm_up_requests == 1);
  CHECK(summary.primers == 1);
  CHECK(summary.output_tokens_per_second == Approx(12.1));
  CHECK(summary.ttft->p50 == 100);
  CHECK(summary.ttft->max == 30000);
  CHECK(summary.time_per_output_token->mean == Approx(10));
  CHECK(summary.gap->count == 110);
  CHECK(summary.goodput[0].per_second == Approx(1.0));
  CHECK(summary.goodput[0].share == Approx(10.0 / 11));
  CHECK(summary.warnings.size() == 1);  // a window below 300 s
  CHECK(summary.notes[0] == "said");
  CHECK(SummaryText(summary).find("over 10.00 s after a 10.00 s warm-up") != std::string::npos);
}

TEST_CASE("a server's words command no terminal, and its absurd counts are told") {
  Accumulator all;
  RequestRecord bad = Good(0, kMs, 2, kMs);
  bad.outcome = Outcome::kErrorEvent;
  bad.error = "a\x1b[2J\x1b]0;owned\x07\r\nb \u009b31m \u202ec";
  all.Add(bad, 0);
  ClientFigures client;
  client.absurd_usages = 3;
  const Summary summary =
      Summarize(all, {0, kSecond, true, kSecond, kSecond}, LoadOptions(), client, std::nullopt, {});
  const std::string text = SummaryText(summary);
  INFO(text);
  CHECK(text.find(R"(a\x1b[2J\x1b]0;owned\x07\x0d\nb \u009b31m )"
                  "\xef\xbf\xbd"
                  "c\n") != std::string::npos);
  CHECK(std::none_of(text.begin(), text.end(),
                     [](char c) { return (c < 0x20 && c >= 0 && c != '\n') || c == 0x7f; }));
  CHECK(text.find("more than 1,000,000,000 tokens in 3 requests") != std::string::npos);
}

TEST_CASE("warnings and notes command no terminal") {
  Accumulator all;
  all.Add(Good(0, kMs, 2, kMs), 0);
  Summary summary = Summarize(all, {0, kSecond, true, kSecond, kSecond}, LoadOptions(), {}, std::nullopt,
                              {"counted by /tmp/\x1b[2Jtokenizer.json"});
  summary.warnings.push_back("a\x1b]0;owned\x07");
  summary.files_error = "/tmp/\x1b[1A: full";
  summary.prompt_token_sources =
      R"({"engines":[],"notes":["\u001b[2J"],"total":{"not_measured":"\u001b[31m"}})";
  const std::string text = SummaryText(summary);
  INFO(text);
  CHECK(text.find(R"(counted by /tmp/\x1b[2Jtokenizer.json)") != std::string::npos);
  CHECK(text.find(R"(not measured: \x1b[31m)") != std::string::npos);
  CHECK(std::none_of(text.begin(), text.end(),
                     [](char c) { return (c < 0x20 && c >= 0 && c != '\n') || c == 0x7f; }));
}

TEST_CASE("percentiles interpolate between closest ranks") {
  std::vector<double> values;
  for (int i = 1; i <= 100; ++i) values.push_back(i * 1e6);
  const Distribution d = Distribute(values);
  CHECK(d.mean == Approx(50.5));
  CHECK(d.p50 == Approx(50.5));
  CHECK(d.p90 == Approx(90.1));
  CHECK(d.p99 == Approx(99.01));
}

TEST_CASE("prompt tokens that the server did not tell are missing and not zero") {
  const auto of = [](const std::vector<std::pair<std::optional<int64_t>, std::optional<int64_t>>>& told) {
    Accumulator all;
    for (const auto& [input, cached] : told) {
      RequestRecord record = Good(0, kMs, 2, kMs);
      record.input_tokens = input;
      record.cached_tokens = cached;
      all.Add(record, 0);
    }
    return Summarize(all, {0, kSecond, true, kSecond, kSecond}, LoadOptions(), ClientFigures(), std::nullopt,
                     {});
  };
  const auto says = [](const Summary& s, const std::string& text) {
    return std::any_of(s.notes.begin(), s.notes.end(),
                       [&](const std::string& note) { return note.find(text) != std::string::npos; });
  };
  const Summary nothing = of({{std::nullopt, std::nullopt}, {std::nullopt, std::nullopt}});
  CHECK(SummaryText(nothing).find("tokens              in: not told, ") != std::string::npos);
  CHECK(SummaryJson(nothing)["input_tokens"].is_null());
  CHECK(SummaryJson(nothing)["cached_tokens"].is_null());
  // Most engines send no details of the prompt: then nothing is known of a cache.
  const Summary plain = of({{100, std::nullopt}, {50, std::nullopt}});
  CHECK(SummaryText(plain).find("tokens              150 in, ") != std::string::npos);
  CHECK(SummaryJson(plain)["input_tokens"] == 150);
  CHECK(SummaryJson(plain)["cached_tokens"].is_null());
  CHECK_FALSE(says(plain, "the server told no"));
  const Summary cold = of({{100, 0}, {50, 0}});
  CHECK(SummaryText(cold).find("tokens              150 in (0 of them cached), ") != std::string::npos);
  CHECK(SummaryJson(cold)["cached_tokens"] == 0);
  const Summary some = of({{100, 64}, {std::nullopt, std::nullopt}, {50, std::nullopt}});
  CHECK(SummaryText(some).find("at least 150 in (at least 64 of them cached), ") != std::string::npos);
  CHECK(says(some, "the server told no prompt tokens for 1 of 3 successful requests"));
  CHECK(says(some, "the server told no cached tokens for 2 of 3 successful requests"));
  CHECK(SummaryText(of({})).find("in: not told, 0 out") != std::string::npos);
}

TEST_CASE("a client that was too slow says so and its figures are marked", "[E1]") {
  Accumulator all;
  for (int i = 0; i < 100; ++i) all.Add(Good(i * kMs, 100 * kMs, 3, 10 * kMs), 0);
  ClientFigures client;
  client.lateness_p50_ms = 1;
  client.lateness_p99_ms = 4.9;
  client.lateness_max_ms = 9;
  const WindowBounds window{0, kSecond, true, kSecond, kSecond};
  CHECK_FALSE(Summarize(all, window, LoadOptions(), client, std::nullopt, {}).client_limited);
  client.lateness_p99_ms = 5.1;  // above 5 % of 100 ms
  const Summary late = Summarize(all, window, LoadOptions(), client, std::nullopt, {});
  CHECK(late.client_limited);
  CHECK(SummaryText(late).find("too slow") != std::string::npos);
  CHECK(SummaryText(late).find("* includes the client's own delay") != std::string::npos);
  // Beside a long TTFT a delay can be small and yet longer than the gaps between tokens (10 ms here).
  Accumulator slow;
  for (int i = 0; i < 100; ++i) slow.Add(Good(i * kMs, 900 * kMs, 3, 10 * kMs), 0);
  client.lateness_p99_ms = 9;
  CHECK_FALSE(Summarize(slow, window, LoadOptions(), client, std::nullopt, {}).client_limited);
  client.lateness_p99_ms = 35;
  CHECK(Summarize(slow, window, LoadOptions(), client, std::nullopt, {}).client_limited);
  // One processor for too much: the loops were ready and did not run.
  client.lateness_p99_ms = 0.1;
  client.processor_wait_share = 0.19;
  CHECK_FALSE(Summarize(slow, window, LoadOptions(), client, std::nullopt, {}).client_limited);
  client.processor_wait_share = 0.6;
  const Summary starved = Summarize(slow, window, LoadOptions(), client, std::nullopt, {});
  CHECK(starved.client_limited);
  CHECK(SummaryText(starved).find("had no processor 60 % of the time") != std::string::npos);
  client.processor_wait_share = 0.01;
  LoadOptions open;
  open.mode = LoadOptions::Mode::kRate;
  client.schedule_error_p50_ms = 0.1;
  client.schedule_error_p99_ms = 11;
  client.schedule_error_max_ms = 12;
  CHECK(Summarize(all, window, open, client, std::nullopt, {}).client_limited);
}

TEST_CASE("the methodology's three warnings and no others", "[H7][H8][H9]") {
  Accumulator all;
  for (int i = 0; i < 98; ++i) all.Add(Good(i * kSecond, kMs, 2, kMs), 0);
  RequestRecord failed;
  failed.outcome = Outcome::kReset;
  failed.started = 5 * kSecond;
  all.Add(failed, 0);
  LoadOptions options;
  options.duration = std::chrono::seconds(400);
  ClientFigures client;
  const WindowBounds window{0, 400 * kSecond, false, 400 * kSecond, 401 * kSecond};
  CHECK(Summarize(all, window, options, client, std::nullopt, {}).warnings.size() == 1);  // 1 of 99 failed
  all.Add(Good(200 * kSecond, kMs, 2, kMs), 0);
  CHECK(Summarize(all, window, options, client, std::nullopt, {})
            .warnings.empty());  // 1 of 100 is not more than 1 %
  client.ran_out_at_s = 350;
  CHECK(Summarize(all, window, options, client, std::nullopt, {}).warnings[0].find("ran out of sessions") !=
        std::string::npos);
}

TEST_CASE("quick prompts are their own, repeatable and as long as asked") {
  QuickOptions options;
  options.model = "m\"x";
  options.requests = 2;
  options.input_tokens = 5;
  const auto source = MakeQuickSource(options);
  REQUIRE(source.ok());
  std::string first;
  std::string again;
  std::string second;
  (*source)->Open(0)->Render(0, &first);
  (*source)->Open(0)->Render(0, &again);
  (*source)->Open(1)->Render(0, &second);
  CHECK(first == again);
  CHECK(first != second);
  CHECK((*source)->Open(2) == nullptr);
  CHECK(first.find("\"model\":\"m\\\"x\"") != std::string::npos);
  options.prompt_ids = true;
  CHECK_FALSE(MakeQuickSource(options).ok());
  options.chat = false;
  const auto ids = MakeQuickSource(options);
  std::string body;
  (*ids)->Open(0)->Render(0, &body);
  CHECK(std::count(body.begin() + static_cast<long>(body.find("\"prompt\":[")), body.end(), ',') == 4);
}

}  // namespace poolmark::load
