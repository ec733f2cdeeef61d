#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/quality/digests.h"
#include "common/quality/plan.h"

namespace poolmark::quality {
namespace {

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  std::vector<std::string> Run() {
    Stores();
    for (size_t i = 0; i < plan_.samples.size(); ++i) Question(i);
    if (PromptsDigest(plan_.store_requests, plan_.samples) != plan_.prompts_digest) {
      Problem("prompts_digest does not fit the messages");
    }
    Result<std::string> fingerprint = PlanFingerprint(plan_.settings_json, plan_.prompts_digest);
    if (!fingerprint.ok() || *fingerprint != plan_.plan_fingerprint) {
      Problem(
          "plan_fingerprint does not fit settings and prompts_digest (a plan of another program may use "
          "another formula)");
    }
    if (plan_.settings.scenario != plan_.scenario || plan_.settings.chunk_size != plan_.chunk_size) {
      Problem("scenario or chunk_size of the plan differ from its settings");
    }
    return std::move(problems_);
  }

 private:
  void Problem(std::string text) { problems_.push_back(std::move(text)); }

  void Stores() {
    for (size_t i = 0; i < plan_.store_requests.size(); ++i) {
      const StoreRequest& store = plan_.store_requests[i];
      if (store.request_id != absl::StrCat("store", i))
        Problem(absl::StrCat("store request ", i, " is called '", store.request_id, "'"));
      std::string& text = stores_[store.request_id];
      for (const Message& m : store.messages) text += m.content;
    }
  }

  void Question(size_t i) {
    const Sample& s = plan_.samples[i];
    std::string where = absl::StrCat("q", i, " (", s.qid, "): ");
    if (s.request_id != absl::StrCat("q", i))
      Problem(absl::StrCat(where, "request_id is '", s.request_id, "'"));
    if (PromptHash(s.messages) != s.prompt_hash) Problem(where + "prompt_hash does not fit the messages");
    std::string prompt;
    for (const Message& m : s.messages) prompt += m.content;
    std::map<std::string, const std::string*> text_of;
    std::multiset<std::string> have, want;
    for (const std::string& document : s.documents) {
      std::string id = PassageId(document);
      want.insert(id);
      text_of[id] = &document;
    }
    std::vector<std::string> evidence;
    for (size_t k = 0; k < s.passages.size(); ++k) {
      const PassageRecord& p = s.passages[k];
      have.insert(p.passage_id);
      if (p.measured_position != static_cast<int64_t>(k))
        Problem(absl::StrCat(where, "passage ", k, " has measured_position ", p.measured_position));
      if (p.is_evidence) evidence.push_back(p.passage_id);
      Passage(where, p, text_of, prompt);
    }
    if (have != want) Problem(where + "the passages are not the documents");
    if (evidence != s.evidence_passage_ids)
      Problem(where + "evidence_passage_ids are not the evidence passages in measured order");
    if ((s.evidence_source == "none") != evidence.empty())
      Problem(where + "evidence_source does not fit the evidence");
    Earlier(where, s);
    for (const PassageRecord& p : s.passages) seen_[p.passage_id].push_back(s.request_id);
    if (s.duplicate_of && !qids_.contains(*s.duplicate_of))
      Problem(absl::StrCat(where, "duplicate_of '", *s.duplicate_of, "' is no earlier question"));
    qids_.insert(s.qid);
  }

  void Passage(const std::string& where, const PassageRecord& p,
               const std::map<std::string, const std::string*>& text_of, const std::string& prompt) {
    auto text = text_of.find(p.passage_id);
    auto store = stores_.find(p.store_request_id);
    if (store == stores_.end()) {
      Problem(absl::StrCat(where, "passage ", p.passage_id, " is stored by '", p.store_request_id,
                           "', which is no store request"));
    } else if (text != text_of.end() && store->second.find(*text->second) == std::string::npos) {
      Problem(absl::StrCat(where, "passage ", p.passage_id, " does not stand in ", p.store_request_id));
    }
    if (text != text_of.end() && prompt.find(*text->second) == std::string::npos) {
      Problem(absl::StrCat(where, "passage ", p.passage_id, " does not stand in the measured prompt"));
    }
    const char* origin = plan_.scenario == "independent" ? "alone"
                         : plan_.scenario == "reordered" ? "with_sample_passages"
                                                         : "in_unit";
    if (p.origin != origin)
      Problem(absl::StrCat(where, "passage ", p.passage_id, " has origin '", p.origin, "' in scenario ",
                           plan_.scenario));
  }

  void Earlier(const std::string& where, const Sample& s) {
    for (const PassageRecord& p : s.passages) {
      std::vector<std::string> expected = seen_[p.passage_id];
      expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
      if (expected != p.measured_earlier_in)
        Problem(absl::StrCat(where, "passage ", p.passage_id, ": measured_earlier_in is wrong"));
    }
  }

  const Plan& plan_;
  std::map<std::string, std::string> stores_;  // request id -> text
  std::map<std::string, std::vector<std::string>> seen_;
  std::set<std::string> qids_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> PlanProblems(const Plan& plan) {
  return Checker(plan).Run();
}

}  // namespace poolmark::quality
