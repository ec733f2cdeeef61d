#include "common/quality/plan.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/random.h"
#include "common/quality/codec.h"
#include "common/quality/digests.h"
#include "common/quality/prompt.h"
#include "common/quality/reuse.h"
#include "common/quality/scoring.h"

namespace poolmark::quality {
namespace {

// Where a passage's KV is stored.
struct StoredAt {
  std::string store_request_id;
  int64_t position = 0;
};

Messages UserMessage(std::string content) {
  return {{"user", std::move(content)}};
}

class Builder {
 public:
  Builder(const Settings& settings, const std::vector<Question>& questions, tokenizer::Tokenizer* tokenizer,
          PlanNotes* notes, const PlanProgress& progress)
      : settings_(settings),
        questions_(questions),
        tokenizer_(tokenizer),
        notes_(notes),
        progress_(progress),
        kwargs_json_(TemplateKwargsJson(settings.template_kwargs)),
        aligner_(tokenizer, *settings.filler, settings.chunk_size, settings.seed, kwargs_json_) {}

  Result<Plan> Build() {
    plan_.settings = settings_;
    plan_.scenario = settings_.scenario;
    plan_.chunk_size = settings_.chunk_size;
    POOLMARK_ASSIGN_OR_RETURN(plan_.settings_json, EncodeSettings(settings_));
    POOLMARK_ASSIGN_OR_RETURN(system_, aligner_.System());
    POOLMARK_RETURN_IF_ERROR(PadAll());
    if (settings_.scenario == "independent") StoreAlone();
    if (settings_.scenario == "reordered") StoreTogether();
    if (settings_.scenario == "concatenated") POOLMARK_RETURN_IF_ERROR(StoreUnits());
    Measure();
    POOLMARK_RETURN_IF_ERROR(Count());
    plan_.prompts_digest = PromptsDigest(plan_.store_requests, plan_.samples);
    POOLMARK_ASSIGN_OR_RETURN(plan_.plan_fingerprint,
                              PlanFingerprint(plan_.settings_json, plan_.prompts_digest));
    return std::move(plan_);
  }

 private:
  void Progress(int64_t done, int64_t total) const {
    if (progress_) progress_(done, total);
  }
  std::string StoreId() const { return absl::StrCat("store", plan_.store_requests.size()); }
  std::string AddStore(std::string content) {
    std::string id = StoreId();
    plan_.store_requests.push_back({id, UserMessage(std::move(content))});
    return id;
  }
  const Block& BlockOf(const std::string& passage) const { return blocks_.at(passage); }

  Status PadAll() {
    int64_t done = 0;
    int64_t total = static_cast<int64_t>(questions_.size());
    for (const Question& q : questions_) {
      for (const std::string& passage : q.documents) {
        if (blocks_.contains(passage)) continue;
        POOLMARK_ASSIGN_OR_RETURN(Block block, aligner_.Passage(passage));
        blocks_.emplace(passage, std::move(block));
      }
      Progress(++done, 2 * total);
    }
    if (aligner_.misaligned() > 0) {
      notes_->warnings.push_back(
          absl::StrCat(aligner_.misaligned(), " blocks could not be padded to whole chunks with filler ",
                       *settings_.filler, ": their reuse will be partial; try another --filler"));
    }
    return absl::OkStatus();
  }

  // One store request per distinct passage, in order of first appearance.
  void StoreAlone() {
    std::map<std::string, std::string> stores;
    for (const Question& q : questions_) {
      std::vector<StoredAt>& places = stored_.emplace_back();
      for (const std::string& passage : q.documents) {
        auto [found, added] = stores.emplace(passage, "");
        if (added) found->second = AddStore(system_.text + BlockOf(passage).text);
        places.push_back({found->second, 0});
      }
    }
  }

  // One store request per question: its passages in data set order.
  void StoreTogether() {
    int64_t single = 0;
    for (const Question& q : questions_) {
      std::string content = system_.text;
      for (const std::string& passage : q.documents) content += BlockOf(passage).text;
      std::string id = AddStore(std::move(content));
      std::vector<StoredAt>& places = stored_.emplace_back();
      for (size_t i = 0; i < q.documents.size(); ++i) places.push_back({id, static_cast<int64_t>(i)});
      if (q.documents.size() < 2) ++single;
    }
    if (single > 0) {
      notes_->warnings.push_back(
          absl::StrCat(single, " questions have one passage, which cannot be reordered"));
    }
  }

  // Contexts packed into units; a context that an earlier question had is not stored again.
  Status StoreUnits() {
    struct Unit {
      std::vector<size_t> contexts;
      int64_t tokens = 0;
    };
    std::vector<Unit> units;
    std::map<std::string, size_t> first_with;  // context text -> question
    std::vector<size_t> source(questions_.size());
    bool open = false;
    for (size_t i = 0; i < questions_.size(); ++i) {
      std::string context;
      for (const std::string& passage : questions_[i].documents) context += BlockOf(passage).text;
      auto [found, added] = first_with.emplace(context, i);
      source[i] = found->second;
      if (!added) continue;
      POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds ids, tokenizer_->Encode(context));
      if (!open) units.emplace_back();
      units.back().contexts.push_back(i);
      units.back().tokens += static_cast<int64_t>(ids.size());
      open = units.back().tokens < *settings_.min_unit_tokens;
    }
    if (open && units.size() > 1) {  // the last one never got full: it joins the one before
      Unit last = std::move(units.back());
      units.pop_back();
      units.back().contexts.insert(units.back().contexts.end(), last.contexts.begin(), last.contexts.end());
    }
    stored_.resize(questions_.size());
    unit_position_.resize(questions_.size());
    duplicate_of_.resize(questions_.size());
    for (const Unit& unit : units) {
      std::string content = system_.text;
      std::string id = StoreId();
      int64_t position = 0;
      for (size_t k = 0; k < unit.contexts.size(); ++k) {
        size_t question = unit.contexts[k];
        unit_position_[question] = static_cast<int64_t>(k);
        for (const std::string& passage : questions_[question].documents) {
          content += BlockOf(passage).text;
          stored_[question].push_back({id, position++});
        }
      }
      AddStore(std::move(content));
    }
    for (size_t i = 0; i < questions_.size(); ++i) {
      if (source[i] == i) continue;
      stored_[i] = stored_[source[i]];
      unit_position_[i] = unit_position_[source[i]];
      duplicate_of_[i] = questions_[source[i]].qid;
    }
    return absl::OkStatus();
  }

  void Measure() {
    const char* origin = settings_.scenario == "independent" ? "alone"
                         : settings_.scenario == "reordered" ? "with_sample_passages"
                                                             : "in_unit";
    std::map<std::string, std::vector<std::string>> seen;  // passage -> request ids so far
    for (size_t i = 0; i < questions_.size(); ++i) {
      const Question& q = questions_[i];
      Sample s;
      s.qid = q.qid;
      s.request_id = absl::StrCat("q", i);
      s.question = q.question;
      s.answers = q.answers;
      s.documents = q.documents;
      s.evidence_indices = q.evidence;
      if (!unit_position_.empty()) s.unit_position = unit_position_[i];
      if (!duplicate_of_.empty()) s.duplicate_of = duplicate_of_[i];
      std::vector<bool> evidence = EvidenceOf(q, &s.evidence_source);
      std::vector<size_t> order(q.documents.size());
      std::iota(order.begin(), order.end(), 0);
      if (settings_.scenario == "reordered") order = MeasuredOrder(settings_.seed, q.qid, q.documents.size());
      std::string content = system_.text;
      int64_t pad = system_.pad_tokens;
      for (size_t place = 0; place < order.size(); ++place) {
        size_t document = order[place];
        const std::string& passage = q.documents[document];
        const Block& block = BlockOf(passage);
        content += block.text;
        pad += block.pad_tokens;
        PassageRecord record;
        record.passage_id = PassageId(passage);
        record.origin = origin;
        record.store_request_id = stored_[i][document].store_request_id;
        record.stored_position = stored_[i][document].position;
        record.measured_position = static_cast<int64_t>(place);
        record.is_evidence = evidence[document];
        record.measured_earlier_in = seen[passage];
        record.pad_tokens = block.pad_tokens;
        if (record.is_evidence) s.evidence_passage_ids.push_back(record.passage_id);
        s.passages.push_back(std::move(record));
      }
      for (const std::string& passage : q.documents) {
        std::vector<std::string>& requests = seen[passage];
        if (requests.empty() || requests.back() != s.request_id) requests.push_back(s.request_id);
      }
      s.messages = UserMessage(content + QuestionText(q.question));
      s.prompt_hash = PromptHash(s.messages);
      pad_tokens_ += pad;
      plan_.samples.push_back(std::move(s));
    }
  }

  // Which passages hold the answer: as the data set marks them, else those containing a gold answer.
  std::vector<bool> EvidenceOf(const Question& q, std::string* source) const {
    std::vector<bool> out(q.documents.size(), false);
    if (!q.evidence.empty()) {
      *source = "dataset";
      for (int64_t index : q.evidence) out[static_cast<size_t>(index)] = true;
      return out;
    }
    bool any = false;
    for (size_t i = 0; i < q.documents.size(); ++i) {
      std::string text = Phrase(q.documents[i]);
      for (const std::string& answer : q.answers) {
        if (HoldsPhrase(text, Phrase(answer))) out[i] = any = true;
      }
    }
    *source = any ? "answer_string" : "none";
    return out;
  }

  // Tokens of every rendered request: expected reuse and the padding's share.
  Status Count() {
    ReuseIndex index(settings_.chunk_size);
    for (const StoreRequest& store : plan_.store_requests) {
      POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds ids, Render(store.messages));
      index.AddStore(ids);
      notes_->prompts.push_back({store.request_id, "", static_cast<int64_t>(ids.size())});
    }
    Padding padding{*settings_.filler, pad_tokens_, 0};
    int64_t done = static_cast<int64_t>(questions_.size());
    int64_t nothing = 0;
    int64_t partial = 0;
    int64_t lost = 0;
    for (Sample& s : plan_.samples) {
      POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds ids, Render(s.messages));
      padding.prompt_tokens += static_cast<int64_t>(ids.size());
      notes_->prompts.push_back({s.request_id, s.qid, static_cast<int64_t>(ids.size())});
      s.expected_reused_tokens = index.Covered(ids);
      if (*s.expected_reused_tokens == 0) ++nothing;
      if (const int64_t missing = WholeChunks(s) - *s.expected_reused_tokens; missing > 0) {
        ++partial;
        lost += missing;
      }
      Progress(++done, 2 * static_cast<int64_t>(questions_.size()));
    }
    if (nothing > 0) {
      notes_->warnings.push_back(
          absl::StrCat(nothing, " of ", plan_.samples.size(), " questions expect no reuse: --chunk-size ",
                       settings_.chunk_size, " is too large for the passages, or the template shifts them"));
    }
    if (partial > 0) {
      notes_->warnings.push_back(absl::StrCat(partial, " of ", plan_.samples.size(),
                                              " questions expect less reuse than their whole chunks hold, ",
                                              lost,
                                              " tokens in all: in the rendered prompts passages do not start "
                                              "or end on chunk boundaries, so their "
                                              "reuse will be partial; try another --filler"));
    }
    plan_.padding = padding;
    return absl::OkStatus();
  }

  // Tokens of the prompt's beginning and of the question's passages that were padded to whole chunks: each of
  // them is stored as well.
  int64_t WholeChunks(const Sample& s) const {
    int64_t tokens = system_.tokens / settings_.chunk_size * settings_.chunk_size;
    for (const std::string& passage : s.documents) {
      const Block& block = BlockOf(passage);
      if (block.tokens % settings_.chunk_size == 0) tokens += block.tokens;
    }
    return tokens;
  }

  Result<tokenizer::TokenIds> Render(const Messages& messages) const {
    tokenizer::ChatMessages chat;
    for (const Message& m : messages) chat.emplace_back(m.role, m.content);
    return tokenizer_->EncodeChat(chat, kwargs_json_);
  }

  const Settings& settings_;
  const std::vector<Question>& questions_;
  tokenizer::Tokenizer* tokenizer_;
  PlanNotes* notes_;
  const PlanProgress& progress_;
  std::string kwargs_json_;
  Aligner aligner_;
  Block system_;
  std::map<std::string, Block> blocks_;                // passage -> padded block
  std::vector<std::vector<StoredAt>> stored_;          // [question][document]
  std::vector<std::optional<int64_t>> unit_position_;  // concatenated only
  std::vector<std::optional<std::string>> duplicate_of_;
  int64_t pad_tokens_ = 0;
  Plan plan_;
};

}  // namespace

std::vector<size_t> MeasuredOrder(int64_t seed, const std::string& qid, size_t passages) {
  std::vector<size_t> order(passages);
  std::iota(order.begin(), order.end(), 0);
  if (passages < 2) return order;
  std::string digest = Sha256Hex(absl::StrCat(seed, ":", qid), 16);
  SplitMix64 random(std::strtoull(digest.c_str(), nullptr, 16));
  do {
    for (size_t i = passages - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  } while (std::is_sorted(order.begin(), order.end()));
  return order;
}

Status CheckContext(const PlanNotes& notes, const Settings& settings, int64_t context_tokens,
                    const std::string& where) {
  const PromptSize* worst = nullptr;
  int64_t worst_tokens = context_tokens;
  int64_t too_long = 0;
  for (const PromptSize& prompt : notes.prompts) {
    const int64_t tokens = prompt.tokens + (prompt.qid.empty() ? 1 : settings.max_output_tokens);
    if (tokens > context_tokens) ++too_long;
    if (tokens <= worst_tokens) continue;
    worst_tokens = tokens;
    worst = &prompt;
  }
  if (worst == nullptr) return absl::OkStatus();
  const bool store = worst->qid.empty();
  std::string what =
      store ? absl::StrCat(worst->request_id, " has ", worst->tokens, " tokens and asks for 1 more")
            : absl::StrCat(worst->request_id, " (", worst->qid, ") has ", worst->tokens,
                           " tokens and may answer with ", settings.max_output_tokens);
  std::string hint =
      "start the engine with a longer context, or leave the longest records out of the data set";
  if (!store && worst->tokens < context_tokens) hint = "lower --max-output-tokens, or " + hint;
  if (store && settings.scenario == "concatenated") hint = "lower --min-unit-tokens, or " + hint;
  return Precondition(where,
                      absl::StrCat("takes ", context_tokens, " tokens of prompt and answer together, ", what,
                                   "; ", too_long, " of ", notes.prompts.size(), " requests are too long"),
                      hint);
}

Result<Plan> BuildPlan(const Settings& settings, const std::vector<Question>& questions,
                       tokenizer::Tokenizer* tokenizer, PlanNotes* notes, const PlanProgress& progress) {
  POOLMARK_RETURN_IF_ERROR(CheckSettings(settings));
  return Builder(settings, questions, tokenizer, notes, progress).Build();
}

}  // namespace poolmark::quality
