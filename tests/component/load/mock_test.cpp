// Every fault mode of the bench's mock server against the truth that it was told to serve: 16 tokens,
// the first after 100 ms, 10 ms apart. A program of its own, so that nothing is shared with our code.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <sstream>
#include <thread>

#include "common/base/files.h"
#include "common/load/quick_source.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/process.h"
#include "tests/support/waiting.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::FreePort;
using poolmark::test::MockServer;
using poolmark::test::Process;
using poolmark::test::TempDir;

class Mock {
 public:
  explicit Mock(const std::vector<std::string>& arguments) : port_(FreePort()) {
    std::vector<std::string> argv = {MockServer(), "--port", std::to_string(port_), "--log", log()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    process_ = std::make_unique<Process>(argv, dir_ / "mock");
    const auto client = http::MakeClient();
    http::Request request;
    request.url = *http::ParseUrl(url() + "/health");
    for (int i = 0; i < 200 && !client->Send(request).ok(); ++i)
      std::this_thread::sleep_for(milliseconds(10));
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string log() const { return dir_ / "truth.csv"; }
  // Ends the server; rows of its log, by column.
  std::vector<std::map<std::string, std::string>> Truth() {
    process_->Signal(SIGTERM);
    process_->Wait(5000);
    std::istringstream text(*ReadFile(log()));
    std::vector<std::map<std::string, std::string>> rows;
    std::vector<std::string> names;
    for (std::string line; std::getline(text, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::vector<std::string> cells;
      std::istringstream row(line);
      for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
      if (names.empty()) {
        names = cells;
        continue;
      }
      std::map<std::string, std::string> by;
      for (size_t i = 0; i < std::min(names.size(), cells.size()); ++i) by[names[i]] = cells[i];
      rows.push_back(by);
    }
    return rows;
  }

 private:
  TempDir dir_;
  uint16_t port_;
  std::unique_ptr<Process> process_;
};

Outcomes Ask(const std::string& url, const std::string& model, bool chat, uint64_t requests = 2) {
  QuickOptions quick;
  quick.model = model;
  quick.chat = chat;
  quick.output_tokens = 16;
  quick.requests = requests;
  const auto source = MakeQuickSource(quick);
  LoadOptions options;
  options.urls = {*http::JoinApi(url, (*source)->api_path())};
  options.loops = 1;
  return Run(options, **source);
}

double Ms(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e6;
}

}  // namespace

TEST_CASE("every fault mode of the mock server has the right outcome and the right times", "[E1][E2][F2]") {
  if (MockServer().empty()) return;
  Mock mock({"--ttft-us", "100000", "--itl-us", "10000", "--tokens", "16"});
  struct Expected {
    std::string fault;
    Outcome outcome = Outcome::kOk;
    double ttft = 100;    // ms
    double answer = 100;  // ms to the first answer output
    size_t events = 16;
    double tpot = 10;     // ms; 0: none
    int64_t tokens = 16;  // by usage, or counted
    bool counted = false;
    double max_gap = 10;  // ms
  };
  for (const Expected& e : std::vector<Expected>{
           {.fault = ""},
           {.fault = "emptyfirst"},
           {.fault = "reasoning", .answer = 180},
           {.fault = "reasoning2", .answer = 180},
           {.fault = "nousage", .counted = true},
           {.fault = "usageeach"},
           {.fault = "splitutf8"},
           {.fault = "splitevent"},
           {.fault = "comment"},
           {.fault = "crlf"},
           {.fault = "cr"},
           {.fault = "nospace"},
           {.fault = "multi", .events = 4, .tpot = 10, .max_gap = 40},
           {.fault = "errstream", .outcome = Outcome::kErrorEvent, .events = 8},
           {.fault = "trunc", .outcome = Outcome::kTruncated, .events = 8},
           {.fault = "reset", .outcome = Outcome::kReset, .events = 8},
           {.fault = "nodone"},
           {.fault = "dupdone"},
           {.fault = "http500", .outcome = Outcome::kHttpStatus},
           {.fault = "http429", .outcome = Outcome::kHttpStatus},
           {.fault = "stall", .tpot = 1150.0 / 15, .max_gap = 1010},
           {.fault = "close"},
           {.fault = "tool"},
           {.fault = "hdrlate"},
           {.fault = "bytes"},
           {.fault = "crlf+comment+usageeach+emptyfirst+nospace", .tpot = 10},
       }) {
    for (const bool chat : {true, false}) {
      // Chat has reasoning and tool calls; plain completions have neither.
      if (!chat && (e.fault.starts_with("reasoning") || e.fault == "tool" || e.fault == "emptyfirst"))
        continue;
      // Timing on a busy machine is only ever late: a wrong reader is wrong every time.
      for (int tries = 1;; ++tries) {
        const Outcomes load = Ask(mock.url(), e.fault.empty() ? "mock" : "mock+" + e.fault, chat);
        REQUIRE(load.records.size() == 2);
        // The second request, on a connection that is in use.
        const RequestRecord& r = load.records[1];
        INFO(e.fault << (chat ? " chat: " : " completions: ") << r.error);
        CHECK(OutcomeName(r.outcome) == OutcomeName(e.outcome));
        CHECK(r.attempts == 1);
        if (e.outcome == Outcome::kHttpStatus) {
          CHECK(r.events.empty());
          CHECK(r.http_status == (e.fault == "http500" ? 500 : 429));
          break;
        }
        CHECK(r.events.size() == e.events);
        CHECK(Ms(*r.first_output - r.sent) > e.ttft - 1);
        CHECK(Ms(*r.first_answer_output - r.sent) > e.answer - 1);
        if (e.outcome == Outcome::kOk) {
          CHECK(*r.output_tokens == e.tokens);
          CHECK(r.output_tokens_counted == e.counted);
          CHECK(r.event_tokens_known == (e.fault.find("usageeach") != std::string::npos));
          CHECK(r.first_event_tokens == 16 / e.events);
          CHECK(r.connect.has_value() == (e.fault == "close"));
        }
        double max_gap = 0;
        for (size_t i = 1; i < r.events.size(); ++i)
          max_gap = std::max(max_gap, Ms(r.events[i].at - r.events[i - 1].at));
        // That fault writes one byte at a time, which takes it some 50 ms on a busy machine.
        const double slack = e.fault == "bytes" ? 300 : 40;
        const std::optional<double> tpot = TimePerOutputToken(r);
        const bool on_time =
            Ms(*r.first_output - r.sent) < e.ttft + slack &&
            Ms(*r.first_answer_output - r.sent) < e.answer + slack && max_gap >= e.max_gap - 5 &&
            (e.outcome != Outcome::kOk || e.fault == "bytes" || *tpot / 1e6 == Approx(e.tpot).epsilon(0.3));
        if (!on_time && tries < 12) continue;
        CHECK(on_time);
        break;
      }
    }
  }
}

TEST_CASE("failed requests are in no latency, and the server saw each request once", "[H8]") {
  if (MockServer().empty()) return;
  Mock mock({"--ttft-us", "1000", "--itl-us", "500", "--tokens", "16", "--fault", "errstream"});
  const Outcomes load = Ask(mock.url(), "mock", true, 10);
  CHECK(load.result.summary.ok == 0);
  CHECK(load.result.summary.requests == 10);
  CHECK_FALSE(load.result.summary.ttft.has_value());
  CHECK(load.result.summary.output_tokens_per_second == 0);
  CHECK(mock.Truth().size() == 10);
}

TEST_CASE("times agree with the server's own, request by request", "[E1][F2]") {
  if (MockServer().empty()) return;
  Mock mock({"--ttft-us", "30000", "--itl-us", "2000", "--tokens", "16", "--exp"});
  QuickOptions quick;
  quick.model = "mock";
  quick.output_tokens = 16;
  quick.requests = 200;
  const auto source = MakeQuickSource(quick);
  LoadOptions options;
  options.urls = {*http::JoinApi(mock.url(), "/v1/chat/completions")};
  options.users = 8;
  options.loops = 2;
  const Outcomes load = Run(options, **source);
  std::map<std::string, const RequestRecord*> records;
  for (const RequestRecord& r : load.records) records["poolmark-" + std::to_string(r.session) + "-0"] = &r;
  const auto rows = mock.Truth();
  REQUIRE(rows.size() == 200);
  std::vector<double> differences;
  for (const auto& row : rows) {
    REQUIRE(records.count(row.at("xid")) == 1);
    const RequestRecord& r = *records.at(row.at("xid"));
    const double truth = Ms(std::stoll(row.at("first_ns")) - std::stoll(row.at("arrival_ns")));
    differences.push_back(Ms(*r.kernel_first_output - r.sent) - truth);
    CHECK(r.events.size() == 16);
  }
  std::sort(differences.begin(), differences.end());
  // The client's TTFT by the kernel's stamps is the server's own and the way there and back.
  CHECK(differences[20] > -1.0);
  CHECK(differences[20] < 5.0);
}

}  // namespace poolmark::load::test
