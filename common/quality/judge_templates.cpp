#include "common/quality/judge_templates.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/variables.h"

namespace poolmark::quality {
namespace {

constexpr char kFirstDigest[] = "6a57033664632416f00db87e6406ead3a43c6f426d59992abfc7dd71da971903";
constexpr char kSecondDigest[] = "f91f7db28b947f8a324dfc335dcf1166e709e6ae6ec7aeff402a5acacd5fd85e";
constexpr char kFetch[] =
    "run deploy/quality/fetch-judge-templates, which takes them from the published ragas 0.4.3 package";

Result<std::string> Load(const std::string& path, const char* digest) {
  Result<std::string> text = ReadFile(path, 1 << 20);
  if (!text.ok()) return NotFound(path, "the judge's template is not there", kFetch);
  if (Sha256Hex(*text) != digest)
    return InvalidInput(path, absl::StrCat("is not the published template (its SHA-256 is not ", digest, ")"),
                        kFetch);
  return text;
}

// Python's str.format for named slots, in one pass: text put in is not looked at again.
std::string Fill(std::string_view text,
                 std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    bool filled = false;
    for (const auto& [slot, value] : values) {
      if (!text.substr(i).starts_with(slot)) continue;
      out.append(value);
      i += slot.size();
      filled = true;
      break;
    }
    if (!filled) out += text[i++];
  }
  return out;
}

}  // namespace

std::string JudgeTemplateDirectory() {
  std::string state = Environment("POOLMARK_STATE_DIR");
  if (state.empty()) {
    std::string xdg = Environment("XDG_STATE_HOME");
    state = JoinPath(xdg.empty() ? JoinPath(Environment("HOME"), ".local/state") : xdg, "poolmark");
  }
  return JoinPath(state, "quality/judge");
}

Result<JudgeTemplates> LoadJudgeTemplates(const std::string& directory) {
  JudgeTemplates out;
  POOLMARK_ASSIGN_OR_RETURN(out.answer_first,
                            Load(JoinPath(directory, "template_accuracy1.txt"), kFirstDigest));
  POOLMARK_ASSIGN_OR_RETURN(out.reference_first,
                            Load(JoinPath(directory, "template_accuracy2.txt"), kSecondDigest));
  return out;
}

std::string AnswerFirstPrompt(const JudgeTemplates& templates, std::string_view question,
                              std::string_view answer, std::string_view reference) {
  return Fill(templates.answer_first, {{"{query}", question},
                                       {"{answer0}", "User Answer"},
                                       {"{answer1}", "Reference Answer"},
                                       {"{sentence_inference}", answer},
                                       {"{sentence_true}", reference}});
}

std::string ReferenceFirstPrompt(const JudgeTemplates& templates, std::string_view question,
                                 std::string_view answer, std::string_view reference) {
  return Fill(templates.reference_first, {{"{query}", question},
                                          {"{answer0}", "Reference Answer"},
                                          {"{answer1}", "User Answer"},
                                          {"{sentence_inference}", reference},
                                          {"{sentence_true}", answer}});
}

}  // namespace poolmark::quality
