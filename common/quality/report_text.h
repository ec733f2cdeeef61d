// What people read in a terminal: the verdict and why, the lost questions, what differs between two
// directories. Pure, thread-safe. The HTML page is in report_html.h.
#pragma once
#include <string>
#include <vector>

#include "common/base/printable.h"
#include "common/quality/analyze.h"
#include "common/quality/directory.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// A few lines: verdict, reasons, every pass against reference_1, noise, reuse, losses, warnings.
std::string SummaryText(const Analysis& analysis);

struct ShowOptions {
  std::string qid;         // only this question; "" for all that are shown
  bool all = false;        // every question, not the lost ones alone
  bool responses = false;  // full responses beside the answers
  size_t most_bytes = 0;   // of one text, the rest is cut and said; 0: whole texts
};
// Whether a question is among those that are shown.
bool IsShown(const Row& row, const ShowOptions& options);
// Questions side by side: golds, both answers, tag, where the evidence was stored and measured. `passes`
// gives the responses and may be empty otherwise.
std::string ShowText(const std::vector<Row>& rows, const LoadedDirectory& directory,
                     const ShowOptions& options);

using poolmark::Printable;  // model output may hold anything, also terminal commands
// The same of the text's beginning, at most `most_bytes` (0: all of it), and how much was left out.
std::string PrintableStart(std::string_view text, size_t most_bytes);

// "0.768", "-0.137": three decimals.
std::string Fixed3(double value);
std::string Percent(double share);  // "91.2%"
std::string PValue(double p);       // "0.031", "below 0.001"

// What makes two summaries not comparable, a line each; empty when the run fingerprints are equal. `a_plan`
// and `b_plan` may be null.
std::vector<std::string> WhyNotComparable(const Summary& a, const Summary& b, const Plan* a_plan,
                                          const Plan* b_plan);
// The candidates of two directories, over the questions that both have a score for.
struct CandidateChange {
  std::string qid;
  double a_score = 0, b_score = 0;
  std::string a_answer, b_answer;
};
struct CandidateChanges {
  PairedComparison figures;  // B against A
  int64_t questions = 0;
  std::vector<CandidateChange> changed;  // whose score differs, in B's order
};
CandidateChanges CompareCandidates(const std::vector<Row>& a_rows, const std::vector<Row>& b_rows);
// Both verdicts and the questions whose candidate score differs.
std::string CompareText(const Summary& a, const std::vector<Row>& a_rows, const Summary& b,
                        const std::vector<Row>& b_rows);

}  // namespace poolmark::quality
