// One line of each trace format. Internal to trace.cpp; pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

struct TraceLine {
  Nanoseconds at{0};  // the trace's own clock
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  std::vector<uint64_t> blocks;
  std::string chat;
  bool failed = false;
};

// Remembers a CSV header between lines.
class TraceLineReader {
 public:
  TraceLineReader(TraceFormat format, std::string file) : format_(format), file_(std::move(file)) {}
  // Nothing for a header or a blank line.
  Result<std::optional<TraceLine>> Read(std::string_view text, uint64_t number);

 private:
  Result<std::optional<TraceLine>> ReadJson(std::string_view text, const std::string& where);
  Result<std::optional<TraceLine>> ReadCsv(std::string_view text, const std::string& where);
  Status ReadHeader(const std::vector<std::string_view>& cells, const std::string& where);

  TraceFormat format_;
  std::string file_;
  std::vector<int> columns_;  // of time, input, output, session; -1: not there
};

}  // namespace poolmark::workload
