#include "common/load/arrivals.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "common/base/json.h"
#include "common/base/time_format.h"

namespace poolmark::load {
namespace {

Result<double> ParsePositive(std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e7) {
    return InvalidInput("rate '" + std::string(whole) + "'",
                        "'" + std::string(text) + "' is no rate from 0 to 1e7 per second",
                        "write 100, 100:60s, 10-100:60s or a list of those with commas");
  }
  return value;
}

// Marsaglia and Tsang 2000 for shape >= 1; boosted below.
double Gamma(double shape, SplitMix64* random) {
  if (shape < 1) return Gamma(shape + 1, random) * std::pow(1 - random->Unit(), 1 / shape);
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double u1 = 1 - random->Unit();
    const double u2 = random->Unit();
    const double x = std::sqrt(-2 * std::log(u1)) * std::cos(2 * M_PI * u2);
    const double base = 1 + c * x;
    if (base <= 0) continue;
    const double v = base * base * base;
    if (std::log(1 - random->Unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// Where the integral of from + (to - from) t / T reaches `area`; beyond T when it does not within T.
double Invert(const RateStep& step, double area) {
  const double length = ToSeconds(step.duration);
  const double slope = length > 0 ? (step.to - step.from) / length : 0;
  if (std::abs(slope) < 1e-12) return step.from > 0 ? area / step.from : INFINITY;
  const double discriminant = step.from * step.from + 2 * slope * area;
  if (discriminant < 0) return INFINITY;
  // The stable form of the root.
  const double denominator = step.from + std::sqrt(discriminant);
  return denominator > 0 ? 2 * area / denominator : 0;
}

}  // namespace

Result<std::vector<RateStep>> ParseRate(std::string_view text) {
  std::vector<RateStep> steps;
  std::string_view rest = text;
  for (;;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t colon = part.find(':');
    const std::string_view rates = part.substr(0, colon);
    const size_t dash = rates.find('-');
    RateStep step;
    POOLMARK_ASSIGN_OR_RETURN(step.from, ParsePositive(rates.substr(0, dash), text));
    step.to = step.from;
    if (dash != std::string_view::npos) {
      POOLMARK_ASSIGN_OR_RETURN(step.to, ParsePositive(rates.substr(dash + 1), text));
    }
    if (colon != std::string_view::npos) {
      POOLMARK_ASSIGN_OR_RETURN(step.duration, ParseDuration(part.substr(colon + 1)));
      if (step.duration <= Nanoseconds(0))
        return InvalidInput("rate '" + std::string(text) + "'", "a step of no duration");
    } else if (comma != std::string_view::npos || dash != std::string_view::npos) {
      return InvalidInput("rate '" + std::string(text) + "'",
                          "step '" + std::string(part) + "' has no duration", "add one, as in 10-100:60s");
    }
    if (step.from <= 0 && step.to <= 0 && step.duration == Nanoseconds(0)) {
      return InvalidInput("rate '" + std::string(text) + "'", "the rate is 0");
    }
    steps.push_back(step);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return steps;
}

Result<ArrivalOptions::Kind> ParseArrivalKind(std::string_view text) {
  if (text == "constant") return ArrivalOptions::Kind::kConstant;
  if (text == "poisson") return ArrivalOptions::Kind::kPoisson;
  if (text == "gamma") return ArrivalOptions::Kind::kGamma;
  return InvalidInput("arrivals '" + std::string(text) + "'", "it is not known",
                      "use constant, poisson or gamma");
}

std::string FormatRate(const std::vector<RateStep>& steps) {
  std::string rate;
  for (const RateStep& step : steps) {
    if (!rate.empty()) rate += ',';
    rate += PythonFloat(step.from);
    if (step.to != step.from) rate += "-" + PythonFloat(step.to);
    if (step.duration > Nanoseconds(0)) rate += ":" + FormatDuration(step.duration);
  }
  return rate;
}

std::string_view ArrivalKindName(ArrivalOptions::Kind kind) {
  static constexpr std::string_view kNames[] = {"constant", "poisson", "gamma"};
  return kNames[static_cast<int>(kind)];
}

std::string DescribeArrivals(const ArrivalOptions& options) {
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return std::string(text);
  };
  std::string out = options.kind == ArrivalOptions::Kind::kConstant ? "arrivals in equal gaps"
                    : options.kind == ArrivalOptions::Kind::kPoisson
                        ? "Poisson arrivals"
                        : "gamma arrivals (cv " + number(options.cv) + ")";
  bool first = true;
  for (const RateStep& step : options.steps) {
    out += first ? ", " : ", then ";
    out += number(step.from);
    if (step.to != step.from) out += " to " + number(step.to);
    out += " requests/s";
    if (step.duration > Nanoseconds(0))
      out += (step.to != step.from ? " within " : " for ") + FormatDuration(step.duration);
    first = false;
  }
  return out;
}

ArrivalSchedule::ArrivalSchedule(ArrivalOptions options)
    : options_(std::move(options)), random_(options_.seed) {}

double ArrivalSchedule::UnitGap() {
  switch (options_.kind) {
    case ArrivalOptions::Kind::kConstant:
      return 1;
    case ArrivalOptions::Kind::kPoisson:
      return random_.Exponential(1);
    case ArrivalOptions::Kind::kGamma: {
      const double square = options_.cv * options_.cv;
      return square <= 0 ? 1 : Gamma(1 / square, &random_) * square;
    }
  }
  return 1;
}

std::optional<Nanoseconds> ArrivalSchedule::Next() {
  // A constant schedule begins at once; a random one with its first gap.
  if (!(first_ && options_.kind == ArrivalOptions::Kind::kConstant)) position_ += UnitGap();
  first_ = false;
  while (step_ < options_.steps.size()) {
    const RateStep& step = options_.steps[step_];
    const double length = ToSeconds(step.duration);
    const bool endless = step.duration == Nanoseconds(0);
    const double at = Invert(step, position_);
    // A hair of tolerance: the end of a step belongs to the next one.
    if (std::isfinite(at) && (endless || at < length * (1 - 1e-12)))
      return Nanoseconds(std::llround((step_start_ + at) * 1e9));
    if (endless) return std::nullopt;
    position_ -= (step.from + step.to) / 2 * length;
    step_start_ += length;
    ++step_;
  }
  return std::nullopt;
}

}  // namespace poolmark::load
