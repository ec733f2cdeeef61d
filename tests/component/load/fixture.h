// Loads against test servers in this process.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/load/engine.h"
#include "common/load/record_codec.h"
#include "common/load/source.h"
#include "tests/support/temp_dir.h"

namespace poolmark::load::test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Sessions as listed; bodies are {"session":N,"turn":K}.
struct ListedTurn {
  std::optional<Nanoseconds> at = {};
  Nanoseconds think{0};
  std::vector<uint32_t> after = {};
  bool primer = false;
};

class ListedSource final : public SessionSource {
 public:
  using Sessions = std::vector<std::vector<ListedTurn>>;
  explicit ListedSource(Sessions sessions, bool live_answers = false, bool endless = false)
      : sessions_(std::move(sessions)), live_answers_(live_answers), endless_(endless) {}
  // `n` sessions of one turn.
  static ListedSource Single(size_t n) { return ListedSource(Sessions(n, {ListedTurn{}})); }
  static ListedSource Endless() { return ListedSource(Sessions(1, {ListedTurn{}}), false, true); }

  std::optional<uint64_t> size() const override {
    return endless_ ? std::nullopt : std::optional<uint64_t>(sessions_.size());
  }
  std::unique_ptr<Session> Open(uint64_t number) override {
    if (!endless_ && number >= sessions_.size()) return nullptr;
    return std::make_unique<Listed>(sessions_[number % sessions_.size()], number, live_answers_);
  }
  std::string_view api_path() const override { return "/v1/chat/completions"; }

 private:
  class Listed final : public Session {
   public:
    Listed(const std::vector<ListedTurn>& turns, uint64_t number, bool live)
        : turns_(turns), number_(number), live_(live), id_("s" + std::to_string(number)) {}
    std::string_view id() const override { return id_; }
    size_t turns() const override { return turns_.size(); }
    TurnPlan turn(size_t index) const override {
      TurnPlan plan;
      plan.at = turns_[index].at;
      plan.think = turns_[index].think;
      plan.after = turns_[index].after;
      plan.primer = turns_[index].primer;
      plan.input_tokens = 8;
      plan.output_tokens = 4;
      return plan;
    }
    void Render(size_t index, std::string* body) override {
      *body += "{\"stream\":true,\"session\":" + std::to_string(number_) +
               ",\"turn\":" + std::to_string(index) + ",\"history\":\"" + answers_ + "\"}";
    }
    void TakeAnswer(size_t, std::string_view answer) override { answers_ += answer; }
    bool wants_answers() const override { return live_; }

   private:
    const std::vector<ListedTurn>& turns_;
    uint64_t number_;
    bool live_;
    std::string id_;
    std::string answers_;
  };

  const Sessions sessions_;
  const bool live_answers_;
  const bool endless_;
};

inline LoadOptions Closed(const std::string& url, uint32_t users, int loops = 1) {
  LoadOptions options;
  options.urls = {*http::JoinApi(url, "/v1/chat/completions")};
  options.users = users;
  options.loops = loops;
  return options;
}

inline LoadOptions Open(const std::string& url, const std::string& rate, int loops = 1) {
  LoadOptions options = Closed(url, 1, loops);
  options.mode = LoadOptions::Mode::kRate;
  options.arrivals.steps = *ParseRate(rate);
  return options;
}

struct Outcomes {
  LoadResult result;
  std::vector<RequestRecord> records;
};

// Runs the load with records in a directory of its own.
inline Outcomes Run(const LoadOptions& options, SessionSource& source, RunSettings settings = {}) {
  const poolmark::test::TempDir dir;
  settings.out_dir = dir.path();
  Result<LoadResult> result = RunLoad(options, source, settings);
  if (!result.ok()) throw std::runtime_error(std::string(result.status().message()));
  Result<std::vector<RequestRecord>> records = ReadRecords(dir / "requests.jsonl.zst");
  if (!records.ok()) throw std::runtime_error(std::string(records.status().message()));
  return {*std::move(result), *std::move(records)};
}

// The most requests that were in flight at once, counted at each one's start.
inline uint64_t MostInFlight(const std::vector<RequestRecord>& records) {
  int64_t most = 0;
  for (const RequestRecord& at : records) {
    most = std::max(most, std::count_if(records.begin(), records.end(), [&](const RequestRecord& r) {
                      return r.started <= at.started && at.started < r.end;
                    }));
  }
  return static_cast<uint64_t>(most);
}

inline uint64_t Count(const Outcomes& outcomes, Outcome outcome) {
  return static_cast<uint64_t>(std::count_if(outcomes.records.begin(), outcomes.records.end(),
                                             [&](const RequestRecord& r) { return r.outcome == outcome; }));
}

}  // namespace poolmark::load::test
