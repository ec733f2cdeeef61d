// The search for the highest load that still meets the limits: levels double until one fails, then the
// gap between the last good and the first bad one is halved. Pure; not thread-safe.
#pragma once
#include <optional>
#include <vector>

namespace poolmark::load {

struct KneeOptions {
  double first = 1;
  double most = 65536;
  bool whole = true;        // levels are whole numbers (users), else rates
  double share = 0.9;       // of the requests that must meet the limits (DistServe's attainment target)
  double resolution = 0.1;  // stop when the gap is at most this share of the good level
};

class KneeSearch {
 public:
  explicit KneeSearch(KneeOptions options) : options_(options) {}
  // The next level to measure; nothing: the search is over.
  std::optional<double> Next() const;
  // The share of requests that met the limits at that level. A level whose client was the limit counts as
  // bad.
  void Report(double level, double share);
  // The highest good level.
  std::optional<double> knee() const { return good_; }
  // The search ended at the highest level allowed, which was still good.
  bool open_end() const { return !bad_.has_value(); }

 private:
  KneeOptions options_;
  std::optional<double> good_;
  std::optional<double> bad_;
};

}  // namespace poolmark::load
