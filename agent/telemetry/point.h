// One reading of one series, before it is delta-coded. Plain values.
#pragma once
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/prom/catalogue.h"
#include "common/prom/parser.h"

namespace poolmark::agent {

struct Point {
  std::string name;
  prom::Labels labels;
  Measured<double> value;
  // From the catalogue; a point whose series the catalogue lacks is dropped.
  const prom::Series* series = nullptr;
};

// Everything one reading of one source gave.
struct Reading {
  std::vector<Point> points;
  std::string failure;  // the source could not be read: why; points are then ignored
  // What identifies the process behind the source, by name ("run_id", "process_start_time_seconds"); a change
  // is a restart.
  std::vector<std::pair<std::string, std::string>> identity;
};

// Builds the points of one reading: looks names up in a dialect, converts units, folds labels away, and turns
// what is no finite number, or 0 W, into "not measured". Not thread-safe.
class PointBuilder {
 public:
  explicit PointBuilder(const prom::Dialect& dialect) : dialect_(dialect) {}
  void Add(const std::string& name, prom::Labels labels, double value);
  void AddMissing(const std::string& name, prom::Labels labels, std::string reason);
  std::vector<Point> Take() { return std::move(points_); }

 private:
  void Push(const prom::Series* series, prom::Labels labels, Measured<double> value);
  const prom::Dialect& dialect_;
  std::vector<Point> points_;
  std::unordered_map<std::string, size_t> folded_;  // key of a folded series -> its point
};

}  // namespace poolmark::agent
