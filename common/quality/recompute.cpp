#include "common/quality/recompute.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/quality/codec.h"
#include "common/quality/codec_parts.h"
#include "common/quality/judge_cache.h"

namespace poolmark::quality {
namespace {

// Null, or an object of nulls.
bool Nothing(const Json& value) {
  return value.is_null() ||
         (value.is_object() &&
          std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_null(); }));
}

bool OlderLack(const std::string& key) {
  static const char* const kKeys[] = {"padding", "reuse", "expected_reused_tokens", "unit_position",
                                      "duplicate_of"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

std::optional<std::string> Difference(const Json& want, const Json& have, const std::string& path) {
  // Other programs may round what they write to four places.
  if (want.is_number() && have.is_number()) {
    if (std::abs(want.get<double>() - have.get<double>()) <= 5e-5) return std::nullopt;
    return path;
  }
  if (want.is_object() && have.is_object()) {
    for (auto it = want.begin(); it != want.end(); ++it) {
      const std::string inner = path.empty() ? it.key() : absl::StrCat(path, ".", it.key());
      auto found = have.find(it.key());
      if (found == have.end() && OlderLack(it.key()) && Nothing(it.value())) continue;
      if (found == have.end()) return inner;
      if (auto difference = Difference(it.value(), *found, inner)) return difference;
    }
    return std::nullopt;
  }
  if (want.is_array() && have.is_array() && want.size() == have.size()) {
    for (size_t i = 0; i < want.size(); ++i) {
      if (auto difference = Difference(want[i], have[i], absl::StrCat(path, "[", i, "]"))) return difference;
    }
    return std::nullopt;
  }
  return want == have ? std::nullopt : std::optional(path);
}

// The file itself first, which also shows fields that nothing reads; then what was read of it, which also
// shows entries too many.
template <class Compare>
void Check(const std::string& want, const std::string& file_text, const std::string& read_again,
           const std::string& file, const char* name, const Compare& compare,
           std::vector<std::string>* problems) {
  std::optional<std::string> difference = compare(want, file_text, file);
  if (!difference) difference = compare(want, read_again, file);
  if (!difference) difference = compare(read_again, want, file);
  if (difference)
    problems->push_back(absl::StrCat(name, " differs from what the files give",
                                     difference->empty() ? "" : ", at ", *difference));
}

}  // namespace

std::optional<std::string> JsonDifference(const std::string& want, std::string_view have,
                                          const std::string& where) {
  Result<Json> left = ParseFile(want, where);
  Result<Json> right = ParseFile(have, where);
  if (!left.ok() || !right.ok()) return "";
  return Difference(*left, *right, "");
}

std::optional<std::string> JsonLinesDifference(const std::string& want, std::string_view have,
                                               const std::string& where) {
  std::vector<Json> left, right;
  for (auto [text, lines] : {std::pair(std::string_view(want), &left), std::pair(have, &right)}) {
    const Status read = ForEachLine(text, where, [lines = lines](Json& object, const std::string&) {
      lines->push_back(std::move(object));
      return absl::OkStatus();
    });
    if (!read.ok()) return "";
  }
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (auto difference = Difference(left[i], right[i], ""))
      return absl::StrCat("line ", i + 1, difference->empty() ? "" : " ", *difference);
  }
  if (left.size() != right.size()) return absl::StrCat("line ", std::min(left.size(), right.size()) + 1);
  return std::nullopt;
}

Result<Recomputed> Recompute(const LoadedDirectory& loaded, const std::string& path) {
  const Directory directory(path);
  const std::string summary_file = directory.File("summary.json");
  const std::string rows_file = directory.File("rows.jsonl");
  POOLMARK_ASSIGN_OR_RETURN(std::string summary_text, directory.ReadResult("summary.json"));
  POOLMARK_ASSIGN_OR_RETURN(Summary summary, DecodeSummary(summary_text, summary_file));
  POOLMARK_ASSIGN_OR_RETURN(std::string rows_text, directory.ReadResult("rows.jsonl"));
  POOLMARK_ASSIGN_OR_RETURN(std::vector<Row> rows, DecodeRows(rows_text, rows_file));
  const bool judge = summary.verdict_settings.metric == "judge";
  JudgeTable table;
  if (judge) {
    for (const std::string& reason : summary.invalid_reasons) {
      if (reason.starts_with("judge_sanity: ")) table.insane = reason.substr(14);
    }
    // As RateAnswers does it.
    Result<std::string> cache = ReadFile(JoinPath(path, "judge_cache.jsonl"), kMaxFileBytes);
    if (cache.ok() && !table.insane) table.by_key = DecodeCache(*cache);
  }
  Recomputed out;
  out.stored_verdict = summary.verdict;
  POOLMARK_ASSIGN_OR_RETURN(out.analysis,
                            Analyze(loaded, summary.verdict_settings, judge ? &table : nullptr));
  Summary again = out.analysis.summary;
  if (again.verdict != summary.verdict)
    out.problems.push_back(absl::StrCat("summary.json says ", std::string(VerdictName(summary.verdict)),
                                        ", the files give ", std::string(VerdictName(again.verdict))));
  again.verdict = summary.verdict;
  if (summary.invalid_reasons.empty() != (summary.verdict != Verdict::kInvalid))
    out.problems.push_back(absl::StrCat("summary.json says ", std::string(VerdictName(summary.verdict)),
                                        " with ", summary.invalid_reasons.size(), " reasons for INVALID"));
  out.stored_reasons = summary.invalid_reasons;
  out.reasons = again.invalid_reasons;
  // Another program's reasons are in its own words; whether there are any is part of the verdict.
  out.analysis.summary.invalid_reasons = again.invalid_reasons = summary.invalid_reasons;
  POOLMARK_ASSIGN_OR_RETURN(std::string want, EncodeSummary(again));
  POOLMARK_ASSIGN_OR_RETURN(std::string read_again, EncodeSummary(summary));
  Check(want, summary_text, read_again, summary_file, "summary.json", JsonDifference, &out.problems);
  POOLMARK_ASSIGN_OR_RETURN(std::string want_rows, EncodeRows(out.analysis.rows));
  POOLMARK_ASSIGN_OR_RETURN(std::string rows_again, EncodeRows(rows));
  Check(want_rows, rows_text, rows_again, rows_file, "rows.jsonl", JsonLinesDifference, &out.problems);
  return out;
}

}  // namespace poolmark::quality
