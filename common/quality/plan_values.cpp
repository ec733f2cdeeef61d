// The values of a plan that the specification fixes or bounds, and evidence by the gold's words.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/quality/digests.h"
#include "common/quality/plan.h"
#include "common/quality/scoring.h"

namespace poolmark::quality {
namespace {

template <size_t N>
bool OneOf(const std::string& value, const std::array<const char*, N>& known) {
  return std::find(known.begin(), known.end(), value) != known.end();
}

class Values {
 public:
  Values(const Plan& plan, std::vector<std::string>* problems) : plan_(plan), problems_(problems) {}

  void Run() {
    CheckSettings();
    Padding();
    Expected();
    for (const StoreRequest& store : plan_.store_requests) Message(store.request_id, store.messages);
    for (const Sample& sample : plan_.samples) Message(sample.request_id, sample.messages);
  }

 private:
  void Problem(std::string text) { problems_->push_back(std::move(text)); }
  bool concatenated() const { return plan_.scenario == "concatenated"; }

  void CheckSettings() {
    const Settings& s = plan_.settings;
    if (s.task != "qa") Problem(absl::StrCat("settings.task is '", s.task, "', 'qa' is the only one"));
    if (!OneOf(s.scenario, std::array{"independent", "reordered", "concatenated"}))
      Problem(absl::StrCat("settings.scenario is '", s.scenario, "', which is none"));
    if (s.filler &&
        !(concatenated() ? *s.filler == "none" : OneOf(*s.filler, std::array{"dots", "dashes", "words"})))
      Problem(absl::StrCat("settings.filler is '", *s.filler, "' in scenario ", plan_.scenario));
    if (s.min_unit_tokens.has_value() != concatenated())
      Problem(absl::StrCat("settings.min_unit_tokens ", concatenated() ? "is missing" : "is given",
                           " in scenario ", plan_.scenario));
    const auto questions = static_cast<int64_t>(plan_.samples.size());
    if (s.num_samples > 0 && questions > s.num_samples)
      Problem(absl::StrCat("settings.num_samples is ", s.num_samples, ", the plan has ", questions,
                           " questions"));
  }

  void Padding() {
    int64_t passages = 0;
    for (const Sample& sample : plan_.samples) {
      for (const PassageRecord& passage : sample.passages) passages += passage.pad_tokens;
    }
    if (concatenated() && passages > 0)
      Problem(absl::StrCat("passages have ", passages, " pad_tokens, concatenated ones are not padded"));
    if (!plan_.padding) return;
    const quality::Padding& p = *plan_.padding;
    if (concatenated() && p.pad_tokens > 0)
      Problem(absl::StrCat("padding.pad_tokens is ", p.pad_tokens, ", concatenated prompts are not padded"));
    if (plan_.settings.filler && p.filler != *plan_.settings.filler)
      Problem(absl::StrCat("padding.filler is '", p.filler, "', the settings say '", *plan_.settings.filler,
                           "'"));
    if (p.pad_tokens > p.prompt_tokens)
      Problem(
          absl::StrCat("padding.pad_tokens is ", p.pad_tokens, " of ", p.prompt_tokens, " prompt tokens"));
  }

  void Expected() {
    if (!plan_.padding) return;
    int64_t expected = 0;
    for (const Sample& sample : plan_.samples) expected += sample.expected_reused_tokens.value_or(0);
    if (expected > plan_.padding->prompt_tokens)
      Problem(absl::StrCat("expected_reused_tokens are ", expected, " in all, the prompts have ",
                           plan_.padding->prompt_tokens, " tokens"));
  }

  void Message(const std::string& request, const Messages& messages) {
    if (messages.size() != 1 || messages[0].role != "user")
      Problem(absl::StrCat(request, " is not one message of the user"));
  }

  const Plan& plan_;
  std::vector<std::string>* problems_;
};

// What the plan's maker marks where the data set marks nothing: every passage that holds a gold's words.
void CheckFound(const Sample& s, std::vector<std::string>* problems) {
  if (s.evidence_source == "dataset") return;
  std::vector<std::string> golds;
  for (const std::string& gold : s.answers) golds.push_back(Phrase(gold));
  std::vector<std::string> held;
  for (const std::string& document : s.documents) {
    const std::string text = Phrase(document);
    if (std::any_of(golds.begin(), golds.end(),
                    [&](const std::string& gold) { return HoldsPhrase(text, gold); }))
      held.push_back(PassageId(document));
  }
  for (const PassageRecord& p : s.passages) {
    const bool holds = std::find(held.begin(), held.end(), p.passage_id) != held.end();
    if (holds != p.is_evidence)
      problems->push_back(absl::StrCat(
          s.request_id, " (", s.qid, "): passage ", p.passage_id,
          holds ? " holds a gold answer and is no evidence" : " is evidence and holds no gold answer"));
  }
}

}  // namespace

void CheckPlanValues(const Plan& plan, std::vector<std::string>* problems) {
  Values(plan, problems).Run();
}

void CheckFoundEvidence(const Plan& plan, std::vector<std::string>* problems) {
  for (const Sample& sample : plan.samples) CheckFound(sample, problems);
}

}  // namespace poolmark::quality
