#include "common/workload/sent_answers.h"

#include <algorithm>
#include <unordered_map>

namespace poolmark::workload {
namespace {

// More than any prompt has: records may say anything.
constexpr int64_t kMostTokens = 1'000'000'000;

// An answer was asked for with a limit, and its text does not become many times the tokens in a prompt. More
// is not believed: each token costs time and memory here.
constexpr int64_t kSlackTokens = 64;
uint32_t Bounded(int64_t tokens, int64_t planned) {
  return static_cast<uint32_t>(std::clamp<int64_t>(tokens, 0, 2 * planned + kSlackTokens));
}

struct Answer {
  uint32_t written = 0;    // by the engine
  uint32_t in_prompt = 0;  // of the turns after
  bool same = true;        // the prompt begins with what was written, as far as it is long enough
};

// The turns of one session that were sent, by their number; null where one was not.
using Turns = std::vector<const SentRequest*>;

class Sent final : public SentWorkload {
 public:
  Sent(const Workload& planned, const std::vector<SentRequest>& requests, Doubtful doubtful)
      : planned_(planned), doubtful_(doubtful) {
    std::unordered_map<uint64_t, Turns> sessions;
    for (const SentRequest& request : requests) {
      if (request.session >= planned.sessions()) continue;
      Turns& turns = sessions[request.session];
      if (turns.empty()) turns.resize(planned.Outline(request.session).turns.size());
      if (request.turn < turns.size()) turns[request.turn] = &request;
    }
    for (const auto& [session, turns] : sessions) answers_[session] = AnswersOf(session, turns);
  }

  uint64_t sessions() const override { return planned_.sessions(); }
  Script Open(uint64_t number) const override {
    Script script = planned_.Open(number);
    const auto at = answers_.find(number);
    if (at == answers_.end()) return script;
    for (size_t i = 0; i < script.turns.size(); ++i) {
      Turn& turn = script.turns[i];
      turn.prompt = AsSent(turn.prompt, at->second);
      turn.output_tokens = turn.answer.tokens = at->second[i].written;
    }
    return script;
  }
  const AnswerCounts& counts() const override { return counts_; }

 private:
  std::vector<Answer> AnswersOf(uint64_t session, const Turns& turns) {
    const Script script = planned_.Outline(session);
    std::vector<Answer> out(turns.size());
    // Planned tokens that the prompts so far did not have. What the first differs by is no answer's.
    const int64_t base =
        !turns.empty() && turns.front() != nullptr ? Difference(*turns.front()).value_or(0) : 0;
    int64_t missing = base;
    for (size_t i = 0; i < turns.size(); ++i) {
      const int64_t planned = script.turns[i].answer.tokens;
      Answer& answer = out[i];
      answer.written = answer.in_prompt = static_cast<uint32_t>(planned);
      if (turns[i] == nullptr) {  // nothing was answered
        answer.written = answer.in_prompt = 0;
        continue;
      }
      // After such a turn the prompt itself says what it does not have.
      if (i > 0 && turns[i - 1] == nullptr) missing = Difference(*turns[i]).value_or(missing);
      counts_.planned_over_counted += Difference(*turns[i]).value_or(base) - base;
      if (turns[i]->output_tokens)
        answer.written = answer.in_prompt = Bounded(*turns[i]->output_tokens, planned);
      if (i + 1 == turns.size() || turns[i + 1] == nullptr) continue;
      ++counts_.answers;
      const auto difference = Difference(*turns[i + 1]);
      if (difference) {
        ++counts_.counted;
        answer.in_prompt = Bounded(planned - (*difference - missing), planned);
      }
      missing += planned - answer.in_prompt;
      Judge(*turns[i], difference.has_value(), &answer);
    }
    return out;
  }

  static std::optional<int64_t> Difference(const SentRequest& request) {
    if (!request.planned_over_counted) return std::nullopt;
    return std::clamp(*request.planned_over_counted, -kMostTokens, kMostTokens);
  }

  void Judge(const SentRequest& request, bool counted, Answer* answer) {
    if (request.reasoned) {
      ++counts_.without_reasoning;
      answer->same = false;
      return;
    }
    const bool whole =
        answer->in_prompt == answer->written || (request.stopped && answer->in_prompt + 1 == answer->written);
    if (counted && request.output_tokens == answer->written && whole) return;  // and is believed
    ++counts_.doubtful;
    answer->same = doubtful_ == Doubtful::kReusable;
  }

  // Assistant spans are the answers of the turns before, in their order. One of which nothing is left stays:
  // it is a message still, with a chat template's tokens around it.
  static Prompt AsSent(const Prompt& planned, const std::vector<Answer>& answers) {
    Prompt out;
    out.reserve(planned.size());
    size_t next = 0;
    for (Span span : planned) {
      if (span.role == Role::kAssistant && next < answers.size()) {
        const Answer& answer = answers[next++];
        span.tokens = answer.in_prompt;
        if (!answer.same) span.key = MixKey(span.key, std::string_view("other than written"));
      }
      out.push_back(span);
    }
    return out;
  }

  const Workload& planned_;
  const Doubtful doubtful_;
  std::unordered_map<uint64_t, std::vector<Answer>> answers_;
  AnswerCounts counts_;
};

}  // namespace

std::unique_ptr<SentWorkload> WithSentAnswers(const Workload& planned,
                                              const std::vector<SentRequest>& requests, Doubtful doubtful) {
  return std::make_unique<Sent>(planned, requests, doubtful);
}

}  // namespace poolmark::workload
