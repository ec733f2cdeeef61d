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
    StoredPositions();
    Padding();
    CheckPlanValues(plan_, &problems_);
    if (PromptsDigest(plan_.store_requests, plan_.samples) != plan_.prompts_digest) {
      Problem("prompts_digest does not fit the messages");
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
    size_t from = 0;  // passages stand in measured order, then the question
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
      Passage(where, p, text_of, prompt, &from);
    }
    if (prompt.find(s.question, from) == std::string::npos)
      Problem(where + "the question does not stand behind the passages of its prompt");
    if (have != want) Problem(where + "the passages are not the documents");
    if (evidence != s.evidence_passage_ids)
      Problem(where + "evidence_passage_ids are not the evidence passages in measured order");
    if ((s.evidence_source == "none") != evidence.empty())
      Problem(where + "evidence_source does not fit the evidence");
    Marked(where, s);
    Unit(where, s);
    Earlier(where, s);
    for (const PassageRecord& p : s.passages) seen_[p.passage_id].push_back(s.request_id);
    earlier_[s.qid] = &s;
  }

  void Passage(const std::string& where, const PassageRecord& p,
               const std::map<std::string, const std::string*>& text_of, const std::string& prompt,
               size_t* from) {
    auto text = text_of.find(p.passage_id);
    auto store = stores_.find(p.store_request_id);
    if (store == stores_.end()) {
      Problem(absl::StrCat(where, "passage ", p.passage_id, " is stored by '", p.store_request_id,
                           "', which is no store request"));
    } else if (text != text_of.end()) {
      const std::string* stored =
          stored_[p.store_request_id].emplace(p.stored_position, text->second).first->second;
      if (*stored != *text->second)
        Problem(absl::StrCat(where, "passage ", p.passage_id, " has stored_position ", p.stored_position,
                             " in ", p.store_request_id, ", where another passage is"));
    }
    if (text != text_of.end()) {
      const size_t at = prompt.find(*text->second, *from);
      if (at == std::string::npos) {
        Problem(absl::StrCat(
            where, "passage ", p.passage_id, " does not stand in the measured prompt",
            prompt.find(*text->second) == std::string::npos ? "" : " where measured_position says"));
      } else {
        *from = at + text->second->size();
      }
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

  // What the data set marks is the evidence; other sources have no marks.
  void Marked(const std::string& where, const Sample& s) {
    if ((s.evidence_source == "dataset") != !s.evidence_indices.empty())
      Problem(where + "evidence_indices do not fit evidence_source");
    if (s.evidence_source != "dataset") return;
    std::set<std::string> marked, evidence(s.evidence_passage_ids.begin(), s.evidence_passage_ids.end());
    for (int64_t index : s.evidence_indices) {
      if (index >= 0 && index < static_cast<int64_t>(s.documents.size()))
        marked.insert(PassageId(s.documents[static_cast<size_t>(index)]));
    }
    if (marked != evidence) Problem(where + "evidence_indices are not the evidence passages");
  }

  // concatenated: contexts of a unit are counted from 0, a duplicate is where its copy is.
  void Unit(const std::string& where, const Sample& s) {
    if (plan_.scenario != "concatenated") {
      if (s.unit_position || s.duplicate_of)
        Problem(where + "unit_position and duplicate_of are for the concatenated scenario");
      return;
    }
    if (s.duplicate_of) {
      auto copy = earlier_.find(*s.duplicate_of);
      if (copy == earlier_.end())
        return Problem(absl::StrCat(where, "duplicate_of '", *s.duplicate_of, "' is no earlier question"));
      const Sample& stored = *copy->second;
      if (stored.duplicate_of || stored.documents != s.documents)
        Problem(absl::StrCat(where, "duplicate_of '", *s.duplicate_of, "' has another context"));
      if (s.unit_position != stored.unit_position)
        Problem(absl::StrCat(where, "unit_position is not that of '", *s.duplicate_of, "'"));
      return;
    }
    if (!s.unit_position || s.passages.empty()) return;  // older plans lack it
    int64_t& next = next_in_unit_[s.passages.front().store_request_id];
    if (*s.unit_position != next)
      Problem(absl::StrCat(where, "unit_position is ", *s.unit_position, ", it is number ", next,
                           " of its unit"));
    ++next;
    if (!contexts_.insert(s.documents).second)
      Problem(where + "an earlier question has the same context, duplicate_of must name it");
  }

  // The passages that questions name stand in their store request, in that order and without gaps.
  void StoredPositions() {
    for (const auto& [store, passages] : stored_) {
      const std::string& text = stores_[store];
      size_t from = 0;
      int64_t next = 0;
      for (const auto& [position, passage] : passages) {
        if (position != next++) {
          Problem(absl::StrCat(store, ": no question has a passage with stored_position ", next - 1,
                               ", one has ", position));
          break;
        }
        const size_t at = text.find(*passage, from);
        if (at == std::string::npos) {
          Problem(absl::StrCat(store, ": the passage ", PassageId(*passage), " does not stand at position ",
                               position));
          break;
        }
        from = at + passage->size();
      }
    }
  }

  // The system text is padded alike in every prompt; the passages' padding is recorded.
  void Padding() {
    if (!plan_.padding || plan_.samples.empty()) return;
    int64_t passages = 0;
    for (const Sample& s : plan_.samples) {
      for (const PassageRecord& p : s.passages) passages += p.pad_tokens;
    }
    const int64_t system = plan_.padding->pad_tokens - passages;
    if (system < 0 || system % static_cast<int64_t>(plan_.samples.size()) != 0) {
      Problem(absl::StrCat("padding.pad_tokens is ", plan_.padding->pad_tokens, ", the passages have ",
                           passages, ": the rest is no equal share of every prompt"));
    }
  }

  const Plan& plan_;
  std::map<std::string, std::string> stores_;                            // request id -> text
  std::map<std::string, std::map<int64_t, const std::string*>> stored_;  // request id -> position -> passage
  std::map<std::string, int64_t> next_in_unit_;
  std::set<std::vector<std::string>> contexts_;
  std::map<std::string, std::vector<std::string>> seen_;
  std::map<std::string, const Sample*> earlier_;  // by qid
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> PlanProblems(const Plan& plan) {
  return Checker(plan).Run();
}

}  // namespace poolmark::quality
