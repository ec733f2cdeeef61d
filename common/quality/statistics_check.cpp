#include "common/quality/statistics_check.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/printable.h"
#include "common/base/version.h"
#include "common/quality/analyze.h"
#include "common/quality/warnings.h"

namespace poolmark::quality {
namespace {

// Other programs may round what they write to four places.
bool Same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return std::abs(a.get<double>() - b.get<double>()) <= 5e-5;
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_object()) {
    for (auto it = a.begin(); it != a.end(); ++it) {
      auto other = b.find(it.key());
      if (other == b.end() || !Same(it.value(), *other)) return false;
    }
    return true;
  }
  if (!a.is_array()) return a == b;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i])) return false;
  }
  return true;
}

std::string FirstDifference(const std::vector<std::string>& have, const std::vector<std::string>& want) {
  auto [a, b] = std::mismatch(have.begin(), have.end(), want.begin(), want.end());
  auto quoted = [](const std::string& text) { return "'" + Printable(text) + "'"; };
  if (a == have.end()) return "there is none of " + quoted(*b);
  return b == want.end() ? "nothing gives " + quoted(*a) : quoted(*a) + " instead of " + quoted(*b);
}

// What is wrong with the stored warnings, "" for nothing.
std::string WarningsProblem(const Json& stored, const std::vector<std::string>& wanted) {
  std::vector<std::string> have;
  if (!stored.is_array()) return "statistics.json: 'warnings' is no array";
  for (const Json& item : stored) {
    if (!item.is_string()) return "statistics.json: 'warnings' is no array of strings";
    if (std::string text = item.get<std::string>(); !IsOfTheMoment(text)) have.push_back(std::move(text));
  }
  std::vector<std::string> want;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(want),
               [](const std::string& text) { return !IsOfTheMoment(text); });
  if (have == want) return "";
  return "statistics.json's warnings are not those that the files give: " + FirstDifference(have, want);
}

}  // namespace

Result<StatisticsCheck> CheckStatistics(std::string_view text, const std::string& file,
                                        const Recomputed& again) {
  POOLMARK_ASSIGN_OR_RETURN(Json have, ParseJson(text, file));
  POOLMARK_ASSIGN_OR_RETURN(std::string want_text, EncodeStatistics(again.analysis));
  POOLMARK_ASSIGN_OR_RETURN(Json want, ParseJson(want_text));
  if (!have.is_object()) return InvalidInput(file, "is no object", "run analyze again");
  const Json stored = have.value("warnings", Json());
  const Json version = have.value("poolmark_version", Json());
  // Figures first, then the words, which another version may choose otherwise.
  for (Json* json : {&want, &have}) {
    json->erase("warnings");
    json->erase("poolmark_version");
  }
  StatisticsCheck out;
  if (!Same(want, have))
    out.problems.push_back("statistics.json differs from what the files give; run analyze again");
  if (version != Version()) {
    out.warnings.push_back(
        "statistics.json is of another version of this program: its warnings and the summary's "
        "invalid_reasons were not compared word by word");
    return out;
  }
  if (std::string problem = WarningsProblem(stored, again.analysis.warnings); !problem.empty())
    out.problems.push_back(std::move(problem));
  if (again.stored_reasons != again.reasons)
    out.problems.push_back(absl::StrCat("summary.json's invalid_reasons are not those that the files give: ",
                                        FirstDifference(again.stored_reasons, again.reasons)));
  return out;
}

}  // namespace poolmark::quality
