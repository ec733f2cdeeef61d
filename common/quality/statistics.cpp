#include "common/quality/statistics.h"

#include <algorithm>
#include <cmath>

namespace poolmark::quality {
namespace {

double LogBinomial(int64_t n, int64_t k, double p) {
  auto lg = [](int64_t x) { return std::lgamma(static_cast<double>(x) + 1); };
  return lg(n) - lg(k) - lg(n - k) + static_cast<double>(k) * std::log(p) +
         static_cast<double>(n - k) * std::log1p(-p);
}

// P(X <= k) for X ~ B(n, p), 0 < p < 1.
double BinomialCdf(int64_t k, int64_t n, double p) {
  double sum = 0;
  for (int64_t i = 0; i <= k; ++i) sum += std::exp(LogBinomial(n, i, p));
  return std::min(sum, 1.0);
}

}  // namespace

PairedComparison ComparePaired(const std::vector<double>& scores, const std::vector<double>& reference) {
  PairedComparison out;
  size_t n = scores.size();
  if (n == 0) return out;
  double total = 0;
  double differences = 0;
  for (size_t i = 0; i < n; ++i) {
    total += scores[i];
    // The mean of differences, not the difference of means: exact for 0/1 scores, so that a delta equal to
    // the tolerance is not beyond it.
    differences += scores[i] - reference[i];
  }
  out.mean_score = total / static_cast<double>(n);
  out.delta = differences / static_cast<double>(n);
  if (n < 2) return out;
  double squares = 0;
  for (size_t i = 0; i < n; ++i) {
    double off = scores[i] - reference[i] - out.delta;
    squares += off * off;
  }
  out.standard_error = std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
  return out;
}

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kUnderpowered:
      return "UNDERPOWERED";
    case Verdict::kInvalid:
      return "INVALID";
  }
  return "INVALID";
}

std::optional<Verdict> VerdictOf(std::string_view name) {
  for (Verdict v : {Verdict::kPass, Verdict::kFail, Verdict::kUnderpowered, Verdict::kInvalid}) {
    if (VerdictName(v) == name) return v;
  }
  return std::nullopt;
}

Decision Decide(double delta, std::optional<double> standard_error, int64_t questions, double tolerance) {
  if (!standard_error) return {Verdict::kUnderpowered, 0};
  double twice = 2 * *standard_error;
  if (std::abs(delta) > tolerance && std::abs(delta) > twice) return {Verdict::kFail, 0};
  if (twice <= tolerance) return {Verdict::kPass, 0};
  if (tolerance <= 0) return {Verdict::kUnderpowered, 0};
  double ratio = twice / tolerance;
  double needed = std::ceil(static_cast<double>(questions) * ratio * ratio);
  return {Verdict::kUnderpowered,
          needed < 9e15 ? static_cast<int64_t>(needed) : int64_t{9'000'000'000'000'000}};
}

std::vector<std::pair<size_t, size_t>> Windows(size_t n, const std::vector<bool>& read) {
  std::vector<std::pair<size_t, size_t>> windows;
  const size_t width = std::min(n, kWindow);
  size_t begin = 0;
  for (size_t i = 0; i < n; ++i) {
    // Without a reading at its end, the window's last tokens are in the next window's first reading.
    if ((i + 1) % width != 0 || (!read.empty() && !read[i])) continue;
    windows.emplace_back(begin, i + 1);
    begin = i + 1;
  }
  return windows;
}

std::vector<double> WindowShares(const std::vector<double>& numerators,
                                 const std::vector<double>& denominators, bool skip_empty,
                                 const std::vector<bool>& read) {
  std::vector<double> shares;
  for (const auto& [begin, end] : Windows(numerators.size(), read)) {
    double top = 0;
    double bottom = 0;
    for (size_t i = begin; i < end; ++i) {
      top += numerators[i];
      bottom += denominators[i];
    }
    if (bottom >= 1) {
      shares.push_back(top / bottom);
    } else if (!skip_empty) {
      shares.push_back(0.0);
    }
  }
  return shares;
}

double SignTest(int64_t losses, int64_t wins) {
  int64_t n = losses + wins;
  if (n == 0) return 1.0;
  return std::min(1.0, 2 * BinomialCdf(std::min(losses, wins), n, 0.5));
}

double RateUpperBound(int64_t hits, int64_t n) {
  if (n <= 0 || hits >= n) return 1.0;
  if (hits == 0) return 1 - std::pow(0.05, 1.0 / static_cast<double>(n));
  double low = static_cast<double>(hits) / static_cast<double>(n);
  double high = 1.0;
  for (int step = 0; step < 100; ++step) {
    double middle = (low + high) / 2;
    if (middle >= 1.0) break;
    (BinomialCdf(hits, n, middle) > 0.05 ? low : high) = middle;
  }
  return high;
}

}  // namespace poolmark::quality
