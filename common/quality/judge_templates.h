// The two judge prompts. Their texts are ragas 0.4.3's and not ours to copy:
// deploy/quality/fetch-judge-templates takes them from the published package into the state directory, and
// their SHA-256 is checked here (decision Q14). Pure but for reading files; thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark::quality {

struct JudgeTemplates {
  std::string answer_first;     // template_accuracy1
  std::string reference_first;  // template_accuracy2; its first slot after the question holds the reference
};

// $POOLMARK_STATE_DIR, else $XDG_STATE_HOME/poolmark, else ~/.local/state/poolmark; then quality/judge below.
std::string JudgeTemplateDirectory();
// template_accuracy1.txt and template_accuracy2.txt. Missing or changed ones are refused with the command to
// run.
Result<JudgeTemplates> LoadJudgeTemplates(const std::string& directory);

// The prompts for one answer.
std::string AnswerFirstPrompt(const JudgeTemplates& templates, std::string_view question,
                              std::string_view answer, std::string_view reference);
std::string ReferenceFirstPrompt(const JudgeTemplates& templates, std::string_view question,
                                 std::string_view answer, std::string_view reference);

}  // namespace poolmark::quality
