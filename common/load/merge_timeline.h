// timeline.jsonl of several load workers as one. Internal to the merge. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"
#include "common/load/record.h"

namespace poolmark::load {

class TimelineMerge {
 public:
  // `path` may not exist: the merged timeline then says so by having no file (see Text). `shift_s`: from this
  // worker's start to the merged one's.
  Status Read(const std::string& path, double shift_s);
  // Every record, on the merged clock: percentiles of a second are taken again over all workers.
  void Add(const RequestRecord& record);
  // One line for each second: counts added up, the workers' own lateness at its worst. Empty where a worker
  // left no timeline.
  Result<std::string> Text() const;

 private:
  static int64_t SecondOf(double at_s);

  std::vector<std::map<int64_t, Json>> workers_;  // second -> its last line
  std::map<int64_t, std::vector<double>> ttft_;   // second -> of the requests that ended in it, nanoseconds
  bool missing_ = false;
};

}  // namespace poolmark::load
