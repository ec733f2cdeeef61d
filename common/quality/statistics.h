// The arithmetic of the verdict: paired differences, decision rule, windows, and the extra statistics that
// are reported beside it. Pure, thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace poolmark::quality {

struct PairedComparison {
  double mean_score = 0;
  double delta = 0;                      // mean of score - reference; negative is a loss
  std::optional<double> standard_error;  // of the differences (n - 1); nothing below two questions
};
// Precondition: equal sizes. An empty set gives zeros and no standard error.
PairedComparison ComparePaired(const std::vector<double>& scores, const std::vector<double>& reference);

enum class Verdict { kPass, kFail, kUnderpowered, kInvalid };
std::string_view VerdictName(Verdict verdict);  // "PASS", ...
std::optional<Verdict> VerdictOf(std::string_view name);

struct Decision {
  Verdict verdict = Verdict::kPass;
  int64_t samples_needed = 0;  // above 0 only for UNDERPOWERED
};
// FAIL when |delta| is beyond both tolerance and twice the standard error (a better candidate fails too);
// else UNDERPOWERED when the standard error is unknown or twice it is beyond tolerance; else PASS (decision
// Q3).
Decision Decide(double delta, std::optional<double> standard_error, int64_t questions, double tolerance);

inline constexpr size_t kWindow = 10;
// The windows [0, 10), [10, 20), ... of n questions, as begin and end; a shorter tail is left out, fewer than
// 10 questions are one window (decision Q4). `read` (empty: all) says which questions have a reading: a
// window without one at its end is joined with the next.
std::vector<std::pair<size_t, size_t>> Windows(size_t n, const std::vector<bool>& read = {});
// Shares over the windows. `skip_empty` leaves windows with denominator 0 out, else their share is 0.
std::vector<double> WindowShares(const std::vector<double>& numerators,
                                 const std::vector<double>& denominators, bool skip_empty,
                                 const std::vector<bool>& read = {});

// Two-sided exact sign test (McNemar for 0/1 scores): the chance of a split at least as uneven as `losses` to
// `wins` if both were equally likely. 1 without any.
double SignTest(int64_t losses, int64_t wins);
// Upper 95 % confidence bound (Clopper-Pearson, one-sided) of a rate seen `hits` times in `n`. For zero hits
// it is 1 - 0.05^(1/n), about 3/n. 1 for n = 0.
double RateUpperBound(int64_t hits, int64_t n);

}  // namespace poolmark::quality
