#include "common/quality/report_json.h"

#include <map>

#include "common/base/json_text.h"
#include "common/quality/codec.h"
#include "common/quality/codec_parts.h"

namespace poolmark::quality {
namespace {

Result<std::string> Text(const Json& json) {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, WriteJson(json, 2));
  return text + "\n";
}

Json Side(const Summary& s) {
  return {{"verdict", VerdictName(s.verdict)},
          {"mean_score", s.candidate.figures.mean_score},
          {"delta", s.candidate.figures.delta},
          {"standard_error", OrNull(s.candidate.figures.standard_error)},
          {"unscored_questions", s.unscored_questions}};
}

}  // namespace

Result<std::string> ShowJson(const std::vector<Row>& rows, const LoadedDirectory& directory,
                             const ShowOptions& options) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < directory.plan.samples.size(); ++i) index[directory.plan.samples[i].qid] = i;
  Json out = Json::array();
  for (const Row& row : rows) {
    if (!IsShown(row, options)) continue;
    POOLMARK_ASSIGN_OR_RETURN(std::string line, EncodeRows({row}));
    POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(line));
    const auto found = index.find(row.qid);
    const Sample* sample = found == index.end() ? nullptr : &directory.plan.samples[found->second];
    json["request_id"] = sample == nullptr ? Json() : Json(sample->request_id);
    json["question"] = sample == nullptr ? Json() : Json(sample->question);
    if (options.responses) {
      Json responses = Json::object();
      for (const Pass& pass : directory.passes) {
        if (sample != nullptr) responses[pass.arm.label] = pass.answers[found->second].response;
      }
      json["responses"] = std::move(responses);
    }
    out.push_back(std::move(json));
  }
  return Text(out);
}

Result<std::string> VerifyJson(const VerifyReport& report) {
  return Text({{"sound", report.problems.empty()},
               {"checked", report.checked},
               {"warnings", report.warnings},
               {"problems", report.problems}});
}

Result<std::string> CompareJson(const Summary& a, const std::vector<Row>& a_rows, const Summary& b,
                                const std::vector<Row>& b_rows) {
  const CandidateChanges changes = CompareCandidates(a_rows, b_rows);
  Json changed = Json::array();
  for (const CandidateChange& change : changes.changed) {
    changed.push_back({{"qid", change.qid},
                       {"scores", {change.a_score, change.b_score}},
                       {"answers", {change.a_answer, change.b_answer}}});
  }
  return Text({{"run_fingerprint", a.run_fingerprint},
               {"a", Side(a)},
               {"b", Side(b)},
               {"delta", changes.figures.delta},
               {"standard_error", OrNull(changes.figures.standard_error)},
               {"questions", changes.questions},
               {"changed", std::move(changed)}});
}

}  // namespace poolmark::quality
