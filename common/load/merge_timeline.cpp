#include "common/load/merge_timeline.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/zstd_file.h"
#include "common/load/summary.h"

namespace poolmark::load {
namespace {

// A phase is over when it is over for all.
int Rank(const std::string& phase) {
  return phase == "warm-up" ? 0 : phase == "load" ? 1 : 2;
}

}  // namespace

// A tick tells of the second before it and comes a little late.
int64_t TimelineMerge::SecondOf(double at_s) {
  return std::max<int64_t>(0, static_cast<int64_t>(std::ceil(at_s - 0.1)) - 1);
}

Status TimelineMerge::Read(const std::string& path, double shift_s) {
  std::map<int64_t, Json>& lines = workers_.emplace_back();
  if (!FileExists(path)) {
    missing_ = true;
    return absl::OkStatus();
  }
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, LineReader::Open(path));
  std::string line;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) return absl::OkStatus();
    const std::string where = path + ":" + std::to_string(reader->line_number());
    POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(line, where));
    if (!json.is_object() || !json.contains("t") || !json["t"].is_number())
      return InvalidInput(where, "it is no line of a timeline");
    // The right side of an assignment comes first: the second is read before the line is moved away.
    const int64_t second = SecondOf(json["t"].get<double>() + shift_s);
    lines[second] = std::move(json);
  }
}

void TimelineMerge::Add(const RequestRecord& record) {
  if (record.outcome != Outcome::kOk || !record.first_output.has_value()) return;
  ttft_[std::max<int64_t>(0, record.end / 1'000'000'000)].push_back(
      static_cast<double>(*record.first_output - record.latency_start()));
}

Result<std::string> TimelineMerge::Text() const {
  if (missing_ || workers_.empty()) return std::string();
  int64_t last = -1;
  for (const auto& lines : workers_) {
    if (!lines.empty()) last = std::max(last, lines.rbegin()->first);
  }
  std::string text;
  std::vector<Json> current(workers_.size());  // the last line of each; null: none yet
  int64_t before = -1;
  uint64_t started_before = 0, ended_before = 0;
  try {
    for (int64_t second = 0; second <= last; ++second) {
      Json line = {{"t", second + 1}};
      uint64_t in_flight = 0, started = 0, ended = 0, failed = 0;
      double events_rate = 0;
      Json lateness = {{"p50", nullptr}, {"p99", nullptr}, {"max", nullptr}};
      std::string phase = "drain";
      bool any = false;
      for (size_t w = 0; w < workers_.size(); ++w) {
        const auto now = workers_[w].find(second);
        if (now != workers_[w].end()) current[w] = now->second;
        if (current[w].is_null()) continue;
        const Json& tick = current[w];
        started += tick.at("started").get<uint64_t>();
        ended += tick.at("ended").get<uint64_t>();
        failed += tick.at("failed").get<uint64_t>();
        if (now == workers_[w].end()) continue;  // it is over: its counts stay, nothing of it goes on
        any = true;
        in_flight += tick.at("in_flight").get<uint64_t>();
        events_rate += tick.at("events_per_s").get<double>();
        if (Rank(tick.at("phase").get<std::string>()) < Rank(phase))
          phase = tick.at("phase").get<std::string>();
        for (auto& [key, worst] : lateness.items()) {
          const Json& value = tick.at("lateness_ms").at(key);
          if (value.is_number() && (worst.is_null() || value.get<double>() > worst.get<double>()))
            worst = value;
        }
      }
      if (!any) continue;
      line["phase"] = phase;
      line["in_flight"] = in_flight;
      line["started"] = started;
      line["ended"] = ended;
      line["failed"] = failed;
      const auto seconds = static_cast<double>(second - before);
      line["started_per_s"] =
          FourDecimals(static_cast<double>(started - std::min(started, started_before)) / seconds);
      line["ended_per_s"] =
          FourDecimals(static_cast<double>(ended - std::min(ended, ended_before)) / seconds);
      before = second;
      started_before = started;
      ended_before = ended;
      line["events_per_s"] = FourDecimals(events_rate);
      line["ttft_ms"] = {{"p50", nullptr}, {"p99", nullptr}};
      if (const auto ttft = ttft_.find(second); ttft != ttft_.end()) {
        const Distribution d = Distribute(ttft->second);
        line["ttft_ms"] = {{"p50", FourDecimals(d.p50)}, {"p99", FourDecimals(d.p99)}};
      }
      line["lateness_ms"] = lateness;
      POOLMARK_ASSIGN_OR_RETURN(const std::string json, DumpJson(line));
      text += json + "\n";
    }
  } catch (const Json::exception& error) {
    return InvalidInput("timeline.jsonl",
                        std::string("a field has not the type that this version writes: ") + error.what());
  }
  return text;
}

}  // namespace poolmark::load
