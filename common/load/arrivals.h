// When requests of an open loop are due. The schedule is a function of its options and seed alone, so that
// every loop and every process draws the same one and takes its own part of it. Not thread-safe.
// Varying rates by the time-change of a process of rate 1 (the k-th arrival lies where the integral of the
// rate reaches the k-th arrival of the unit process).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/result.h"

namespace poolmark::load {

// A stretch of time in which the rate goes from one value to another in a straight line.
struct RateStep {
  Nanoseconds duration{0};  // of the last step: zero means without end
  double from = 0;          // requests per second
  double to = 0;
};

struct ArrivalOptions {
  enum class Kind { kConstant, kPoisson, kGamma };
  Kind kind = Kind::kConstant;
  double cv = 1.0;  // gamma: coefficient of variation of the gaps; shape = 1 / cv²
  std::vector<RateStep> steps;
  uint64_t seed = 1;
};

// "100", "100:60s" (for 60 s), "10-100:60s" (ramp), lists of those with commas. Errors name the part.
Result<std::vector<RateStep>> ParseRate(std::string_view text);
// As ParseRate takes it.
std::string FormatRate(const std::vector<RateStep>& steps);
Result<ArrivalOptions::Kind> ParseArrivalKind(std::string_view text);
std::string_view ArrivalKindName(ArrivalOptions::Kind kind);
// For people: "Poisson arrivals, 10 to 100 requests/s within 1m, then 100 requests/s".
std::string DescribeArrivals(const ArrivalOptions& options);

class ArrivalSchedule {
 public:
  explicit ArrivalSchedule(ArrivalOptions options);
  // The next arrival from the start of the load; nothing after the last step. Arrivals may coincide.
  std::optional<Nanoseconds> Next();

 private:
  double UnitGap();

  ArrivalOptions options_;
  SplitMix64 random_;
  bool first_ = true;
  double position_ = 0;  // in the unit process, within the current step
  size_t step_ = 0;
  double step_start_ = 0;  // seconds
};

}  // namespace poolmark::load
