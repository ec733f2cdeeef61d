#include "common/quality/digests.h"

#include <nlohmann/json.hpp>

#include "common/base/digest.h"
#include "common/base/json.h"
#include "common/quality/codec_parts.h"

namespace poolmark::quality {
namespace {

// json.dumps of text cannot fail: PythonDumps replaces what is no UTF-8.
std::string Dumps(const Json& json) {
  return PythonDumps(json, true).value_or("");
}

}  // namespace

std::string PassageId(std::string_view passage) {
  return Sha256Hex(passage, 12);
}

std::string PromptHash(const Messages& messages) {
  return Sha256Hex(Dumps(MessagesJson(messages)), 16);
}

std::string PromptsDigest(const std::vector<StoreRequest>& stores, const std::vector<Sample>& samples) {
  // The same bytes as dumping one list, without holding it.
  Sha256 hash;
  bool first = true;
  hash.Update("[");
  auto add = [&](const Messages& messages) {
    if (!first) hash.Update(", ");
    first = false;
    hash.Update(Dumps(MessagesJson(messages)));
  };
  for (const StoreRequest& store : stores) add(store.messages);
  for (const Sample& sample : samples) add(sample.messages);
  hash.Update("]");
  return hash.Hex().substr(0, 16);
}

Result<std::string> PlanFingerprint(const std::string& settings_json, const std::string& prompts_digest) {
  POOLMARK_ASSIGN_OR_RETURN(Json settings, ParseJson(settings_json, "settings"));
  Json root = {{"prompts_digest", prompts_digest}};
  root["settings"] = std::move(settings);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, PythonDumps(root, true));
  return Sha256Hex(text, 16);
}

Result<std::string> RunFingerprint(const std::string& settings_json, const std::string& prompts_digest,
                                   const VerdictSettings& verdict) {
  POOLMARK_ASSIGN_OR_RETURN(Json settings, ParseJson(settings_json, "settings"));
  Json root = {{"prompts_digest", prompts_digest}, {"verdict_metric", verdict.metric}};
  root["settings"] = std::move(settings);
  if (verdict.judge_model) {
    root["judge_model"] = *verdict.judge_model;
    root["judge_metric"] = kJudgeMetric;
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string text, PythonDumps(root, true));
  return Sha256Hex(text, 16);
}

std::string JudgeKey(std::string_view judge_model, std::string_view question, std::string_view answer,
                     std::string_view reference) {
  Json list = Json::array();
  list.push_back(kJudgeMetric);
  for (std::string_view text : {judge_model, question, answer, reference}) list.push_back(std::string(text));
  return Sha256Hex(Dumps(list));
}

}  // namespace poolmark::quality
