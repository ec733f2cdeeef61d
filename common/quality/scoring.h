// Scores of one answer that need no judge: token F1, match, abstention. The rules are those of LMCache's
// released answer scoring (lmcache-cli 0.5.7rc3, engine_bench/quality/scoring.py), so that scores agree with
// it. Made for short answers to questions, not for long text: an abstention phrase is common there. Pure,
// thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::quality {

// Lower case, ASCII punctuation deleted, the words a, an, the dropped, white space collapsed.
std::string Normalize(std::string_view text);

// Typography folded (NFKC, quotes, dashes), hyphens as word breaks, then Normalize.
std::string Phrase(std::string_view text);

// Whether `phrase` (not empty) stands in `text` as whole words; both already passed through Phrase().
bool HoldsPhrase(std::string_view text, std::string_view phrase);

// 0 to 1. Two empty texts score 1, one empty scores 0.
double TokenF1(std::string_view answer, std::string_view gold);
// The best over all golds; 0 without golds.
double BestF1(std::string_view answer, const std::vector<std::string>& golds);

// Whether the answer states one of the golds: as a whole-word phrase, or, where the gold holds figures, by
// giving every figure within 0.5 % (rescaled by thousands where either side names a scale).
bool Matches(std::string_view answer, const std::vector<std::string>& golds);

// Whether the answer declines to answer. An empty answer does not: it is a missing one.
bool IsAbstention(std::string_view answer);

}  // namespace poolmark::quality
