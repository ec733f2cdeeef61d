// samples/<machine>.jsonl.zst: what was sampled on one machine while the load ran. The first line is a
// header; series are defined before their first reading; a round holds the readings that changed (differences
// of whole numbers); gaps and resets are records of their own. Objects are not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/measured.h"
#include "common/base/result.h"
#include "common/prom/totals.h"
#include "common/stats/counters.h"

namespace poolmark::results {

struct SampleSeries {
  uint32_t id = 0;
  std::string source;  // process id or "node"
  std::string name;
  std::map<std::string, std::string> labels;
  std::string unit;
  std::string kind;  // counter, gauge, peak, last_event
  // How it adds up with the others of its name, by the catalogue of the job; nothing: no catalogue told.
  std::optional<prom::Adding> adding = std::nullopt;
};

struct SampleReading {
  uint32_t series = 0;
  Measured<double> value;
};

struct SampleRoundRecord {
  Nanoseconds at{0};  // from the start of the load, may be negative
  std::string source;
  Nanoseconds duration{0};  // of the scrape
  std::string failure;
  std::vector<SampleReading> readings;
};
struct SampleGap {
  Nanoseconds from{0}, to{0};
  std::string reason;
};
struct SampleResetRecord {
  Nanoseconds at{0};
  std::string source;
  uint32_t series = 0;  // 0: the whole source
  std::string reason;
};

class SamplesWriter {
 public:
  // `wall_start` is RFC 3339, the wall time of second 0.
  static Result<std::unique_ptr<SamplesWriter>> Create(const std::string& path, const std::string& machine,
                                                       const std::string& wall_start);
  ~SamplesWriter();
  Status Series(const SampleSeries& series);
  Status Round(const SampleRoundRecord& round);
  Status Gap(const SampleGap& gap);
  Status Reset(const SampleResetRecord& reset);
  // Ends a compressed block: what was written so far survives a crash of the writer.
  Status Flush();
  Status Finish();

 private:
  SamplesWriter();
  struct State;
  std::unique_ptr<State> state_;
};

struct SampleLog {
  std::string machine, wall_start;
  std::vector<SampleSeries> series;
  std::map<uint32_t, std::vector<stats::Sample>> values;    // by series, full values, by time
  std::map<uint32_t, std::string> not_measured;             // last reason
  std::map<uint32_t, std::vector<Nanoseconds>> unread;      // by series, when it could not be read
  std::map<std::string, std::vector<Nanoseconds>> scrapes;  // source -> when it was read, failures left out
  std::map<std::string, std::vector<Nanoseconds>> failures;
  std::vector<SampleGap> gaps;
  std::vector<SampleResetRecord> resets;
  uint64_t rounds = 0, failed_rounds = 0;
  std::string truncated;  // why reading stopped early; "" : it did not
};
// A file that ends early gives what came before, with `truncated` set; a line that is no record is an error.
Result<SampleLog> ReadSamples(const std::string& path);

}  // namespace poolmark::results
