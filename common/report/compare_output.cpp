// The comparison of jobs as text and JSON.
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/report/compare.h"
#include "common/report/format.h"
#include "common/report/workloads.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

// Of test points the fields hold names, "(none)" where there are none.
std::string PointsLine(const Unlike& one, const std::string& first) {
  if (one.refuses)
    return "no stack, workload and load level in common: " + first + " has the test points " + one.first +
           ", " + one.directory + " has " + one.other;
  std::string out = "not compared:";
  for (const auto& [directory, points] : {std::pair{first, one.first}, {one.directory, one.other}}) {
    if (points != "(none)")
      out += (out.ends_with(":") ? " " : "; ") + points + " (in " + directory + " only)";
  }
  return out;
}

std::string UnlikeLine(const Unlike& one, const std::string& first) {
  if (one.what == kTestPoints) return PointsLine(one, first);
  return one.directory + ": " + one.what + " is " + one.other + ", in the first it is " + one.first;
}

}  // namespace

std::string ComparisonText(const JobComparison& given) {
  const auto scaled = WithScaledNames(given);
  const JobComparison& comparison = scaled ? *scaled : given;
  std::string out;
  for (const auto& one : comparison.unlike)
    out += (one.refuses ? "cannot be compared: " : "differs: ") +
           UnlikeLine(one, comparison.directories.front()) + "\n";
  std::string notes;
  for (const auto& note : comparison.notes) notes += "note: " + note + "\n";
  if (comparison.damaged)
    notes += "damaged: the notes name what is missing, was changed or does not follow\n";
  if (comparison.refused()) return out + notes + "refused: the results cannot be compared\n";
  std::vector<std::vector<std::string>> rows = {
      {"point", "figure", "first", "other", "change", "95 %", "verdict"}};
  for (size_t i = 0; i < comparison.comparisons.size(); ++i) {
    const auto& one = comparison.comparisons[i];
    if (one.pairs == 0) continue;
    rows.push_back({one.candidate + " " + one.workload + "-" + one.level,
                    results::TitleOf(one.figure) + (IsMarked(comparison, i) ? " *" : ""),
                    FormatValue(one.baseline_mean, results::UnitOf(one.figure)),
                    FormatValue(one.candidate_mean, results::UnitOf(one.figure)),
                    FormatValue(one.relative, "share"),
                    one.low ? FormatValue(*one.low, "share") + " to " + FormatValue(*one.high, "share") : "–",
                    one.verdict + (one.repeats_needed
                                       ? " (" + std::to_string(*one.repeats_needed) + " repeats would tell)"
                                       : "")});
  }
  out += rows.size() > 1 ? TextTable(rows) : "no pair of valid repeats\n";
  return out + notes;
}

Result<std::string> ComparisonJson(const JobComparison& comparison) {
  Json json = {{"directories", comparison.directories},
               {"comparable", !comparison.refused()},
               {"complete", comparison.complete},
               {"damaged", comparison.damaged},
               {"differs", Json::array()},
               {"comparisons", Json::array()},
               {"notes", comparison.notes}};
  for (const auto& one : comparison.unlike)
    json["differs"].push_back({{"directory", one.directory},
                               {"what", one.what},
                               {"first", one.first},
                               {"other", one.other},
                               {"refuses", one.refuses}});
  // The comparisons in the form of summary.json.
  results::SummaryFile summary;
  summary.comparisons = comparison.comparisons;
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, results::Encode(summary));
  POOLMARK_ASSIGN_OR_RETURN(const Json encoded, ParseJson(text, "comparisons"));
  json["comparisons"] = encoded["comparisons"];
  for (size_t i = 0; i < comparison.comparisons.size(); ++i)
    json["comparisons"][i]["own_delay"] = IsMarked(comparison, i);
  POOLMARK_ASSIGN_OR_RETURN(std::string out, DumpJson(json, 1));
  return out + "\n";
}

}  // namespace poolmark::report
