// What a load says of itself: window, percentiles, warnings and notes.
#include "common/load/summary.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/load/accumulator.h"
#include "common/load/options.h"
#include "common/load/record.h"

namespace poolmark::load {

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
  // Two loops of two processors' time; of a load of some milliseconds it is not known.
  client.loops = 2;
  client.cpu_seconds_of_load = 1.7;
  CHECK_FALSE(Summarize(slow, window, LoadOptions(), client, std::nullopt, {}).client_limited);
  client.cpu_seconds_of_load = 1.9;
  CHECK(Summarize(slow, window, LoadOptions(), client, std::nullopt, {}).client_limited);
  const WindowBounds instant{0, kSecond, true, 20 * kMs, kSecond};
  client.cpu_seconds_of_load = 0.05;
  CHECK_FALSE(Summarize(slow, instant, LoadOptions(), client, std::nullopt, {}).client_limited);
  client.cpu_seconds_of_load = 0;
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

}  // namespace poolmark::load
