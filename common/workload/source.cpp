#include "common/workload/source.h"

#include <nlohmann/json.hpp>

#include "common/workload/agentic.h"
#include "common/workload/synthetic.h"
#include "common/workload/trace.h"

namespace poolmark::workload {
namespace {

std::string_view RoleName(Role role) {
  static constexpr std::string_view names[] = {"system", "user", "assistant"};
  return names[static_cast<int>(role)];
}

// What every request of a source has in common.
struct Shared {
  WorkloadSpec spec;
  std::shared_ptr<const Workload> workload;
  TextTokens text;
  std::string head;  // `{"model":…,` up to the prompt
  std::string tail;  // after max_tokens
};

class ScriptSession final : public load::Session {
 public:
  ScriptSession(std::shared_ptr<const Shared> shared, Script script)
      : shared_(std::move(shared)), script_(std::move(script)) {
    if (shared_->spec.live_answers) answers_.resize(script_.turns.size());
  }

  std::string_view id() const override { return script_.id; }
  size_t turns() const override { return script_.turns.size(); }
  bool wants_answers() const override { return shared_->spec.live_answers; }
  void TakeAnswer(size_t index, std::string_view text) override { answers_[index] = std::string(text); }

  load::TurnPlan turn(size_t index) const override {
    const Turn& turn = script_.turns[index];
    load::TurnPlan plan;
    plan.at = turn.at;
    plan.think = turn.think;
    plan.input_tokens = TokensOf(turn.prompt) + Overhead(turn.prompt);
    plan.output_tokens = turn.output_tokens;
    plan.primer = turn.primer;
    plan.agent = turn.agent;
    plan.after = turn.after;
    return plan;
  }

  void Render(size_t index, std::string* body) override {
    const Turn& turn = script_.turns[index];
    body->append(shared_->head);
    if (shared_->spec.chat) {
      AppendMessages(turn.prompt, index, body);
    } else if (shared_->spec.token_ids) {
      body->append("\"prompt\":[");
      AppendTokenIds(turn.prompt, shared_->spec.vocabulary, body);
      body->push_back(']');
    } else {
      body->append("\"prompt\":\"");
      bool first = true;
      size_t answer = 0;
      for (const Span& span : turn.prompt) {
        AppendSpan(span, first, &answer, body);
        first = false;
      }
      body->push_back('"');
    }
    body->append(",\"max_tokens\":");
    body->append(std::to_string(turn.output_tokens));
    body->append(shared_->tail);
  }

 private:
  int64_t Overhead(const Prompt& prompt) const {
    const TextTokens& text = shared_->text;
    if (!shared_->spec.chat) return shared_->spec.token_ids ? 0 : text.text_overhead;
    int64_t overhead = text.chat_overhead;
    const Role* before = nullptr;
    for (const Span& span : prompt) {
      if (before == nullptr || *before != span.role)
        overhead += span.role == Role::kSystem ? text.system_overhead : text.message_overhead;
      before = &span.role;
    }
    return overhead;
  }

  // An answer in the prompt is the engine's own text where answers are live.
  void AppendSpan(const Span& span, bool first, size_t* answer, std::string* body) const {
    if (shared_->spec.live_answers && span.role == Role::kAssistant) {
      const std::string& text = answers_[(*answer)++];
      if (!first && !shared_->spec.chat && !text.empty() && text.front() != ' ') body->push_back(' ');
      const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
      body->append(quoted, 1, quoted.size() - 2);
      return;
    }
    AppendWords(span, shared_->text.words, first, body);
  }

  void AppendMessages(const Prompt& prompt, size_t, std::string* body) const {
    body->append("\"messages\":[");
    const Role* before = nullptr;
    size_t answer = 0;
    for (const Span& span : prompt) {
      const bool opens = before == nullptr || *before != span.role;
      if (opens) {
        if (before != nullptr) body->append("\"},");
        body->append("{\"role\":\"").append(RoleName(span.role)).append("\",\"content\":\"");
      }
      AppendSpan(span, opens, &answer, body);
      before = &span.role;
    }
    body->append("\"}]");
  }

  std::shared_ptr<const Shared> shared_;
  Script script_;
  std::vector<std::string> answers_;
};

class ScriptSource final : public load::SessionSource {
 public:
  explicit ScriptSource(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}
  std::optional<uint64_t> size() const override { return shared_->workload->sessions(); }
  std::unique_ptr<load::Session> Open(uint64_t number) override {
    if (number >= shared_->workload->sessions()) return nullptr;
    return std::make_unique<ScriptSession>(shared_, shared_->workload->Open(number));
  }
  std::string_view api_path() const override {
    return shared_->spec.chat ? "/v1/chat/completions" : "/v1/completions";
  }

 private:
  std::shared_ptr<const Shared> shared_;
};

}  // namespace

Result<std::shared_ptr<const Workload>> OpenWorkload(const WorkloadSpec& spec) {
  if (spec.shape == Shape::kTrace) {
    POOLMARK_ASSIGN_OR_RETURN(auto trace, ReadTrace(spec.file, spec.format, spec.block_tokens, spec.limit));
    return std::shared_ptr<const Workload>(MakeTrace(spec, std::move(trace)));
  }
  if (spec.shape == Shape::kAgentic) {
    POOLMARK_ASSIGN_OR_RETURN(auto sessions, ReadAgentic(spec.file, spec.limit));
    return std::shared_ptr<const Workload>(MakeAgentic(spec, std::move(sessions)));
  }
  return std::shared_ptr<const Workload>(MakeSessions(spec));
}

std::unique_ptr<load::SessionSource> MakeSource(const WorkloadSpec& spec,
                                                std::shared_ptr<const Workload> workload, TextTokens text) {
  auto shared = std::make_shared<Shared>();
  shared->spec = spec;
  shared->workload = std::move(workload);
  shared->text = std::move(text);
  shared->head = "{\"model\":" + Json(spec.model).dump(-1, ' ', false, Json::error_handler_t::replace) + ",";
  shared->tail = std::string(",\"temperature\":0") + (spec.ignore_eos ? ",\"ignore_eos\":true" : "") +
                 ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}";
  return std::make_unique<ScriptSource>(std::move(shared));
}

Result<std::unique_ptr<load::SessionSource>> OpenSource(const Json& json, TokenCounter* counter,
                                                        std::vector<std::string>* notes) {
  POOLMARK_ASSIGN_OR_RETURN(const WorkloadSpec spec, ParseWorkload(json));
  POOLMARK_ASSIGN_OR_RETURN(auto workload, OpenWorkload(spec));
  TextTokens text{PlainWords()};
  if (!spec.token_ids && counter != nullptr) {
    POOLMARK_ASSIGN_OR_RETURN(text, CalibrateWords(counter, spec.chat, spec.prefix > 0));
  }
  if (notes != nullptr) {
    *notes = workload->notes();
    if (!spec.token_ids && !text.exact) {
      notes->push_back(
          "Prompt lengths are approximate: one word is taken as one token, no tokenizer was asked.");
    }
  }
  return MakeSource(spec, std::move(workload), std::move(text));
}

}  // namespace poolmark::workload
