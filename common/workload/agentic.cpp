#include "common/workload/agentic.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace poolmark::workload {
namespace {

class AgenticWorkload final : public Workload {
 public:
  AgenticWorkload(const WorkloadSpec& spec, std::vector<AgenticSession> sessions)
      : spec_(spec),
        sessions_(std::move(sessions)),
        root_(MixKey(MixKey(spec.seed, spec.marker), std::string_view("agentic"))) {}

  uint64_t sessions() const override { return sessions_.size(); }
  bool session_scope() const override {
    return std::all_of(sessions_.begin(), sessions_.end(),
                       [](const auto& session) { return session.local_scope; });
  }
  uint32_t natural_block_tokens() const override {
    const uint32_t block = sessions_.front().block_tokens;
    for (const auto& session : sessions_) {
      if (session.block_tokens != block) return 0;
    }
    return static_cast<uint32_t>(ScaleTokens(block, spec_.token_scale));
  }

  Script Open(uint64_t number) const override {
    const AgenticSession& session = sessions_[number];
    Script script;
    script.id = session.id;
    std::vector<std::vector<uint64_t>> blocks(session.requests.size());
    for (size_t i = 0; i < session.requests.size(); ++i) {
      const AgenticRequest& request = session.requests[i];
      if (request.base >= 0) {
        const auto& base = blocks[static_cast<size_t>(request.base)];
        blocks[i].assign(base.begin(), base.begin() + request.shared);
      }
      blocks[i].insert(blocks[i].end(), request.blocks.begin(), request.blocks.end());
    }
    const auto start = StartRound(session, number);
    std::vector<int> place(session.requests.size(), -1);  // turn of a request; -1: before the start
    if (start.primer) {
      Turn turn;
      turn.prompt = PromptOf(session, number, *start.primer, blocks[*start.primer]);
      turn.output_tokens = 1;
      turn.primer = true;
      script.turns.push_back(std::move(turn));
      place[*start.primer] = 0;
    }
    for (size_t i = 0; i < session.requests.size(); ++i) {
      if (!start.keeps[i]) continue;
      script.turns.push_back(TurnOf(session, number, i, blocks[i], place, start.primer.has_value()));
      place[i] = static_cast<int>(script.turns.size()) - 1;
    }
    return script;
  }

 private:
  struct Start {
    std::optional<size_t> primer;  // the request whose prompt is primed
    std::vector<bool> keeps;
  };

  Start StartRound(const AgenticSession& session, uint64_t number) const {
    Start start;
    start.keeps.assign(session.requests.size(), true);
    const uint64_t users = spec_.concurrency.empty() ? 0 : static_cast<uint64_t>(spec_.concurrency.front());
    if (number >= users || spec_.start_to <= 0) return start;
    std::vector<size_t> rounds;
    for (size_t i = 0; i < session.requests.size(); ++i) {
      if (session.requests[i].agent.empty()) rounds.push_back(i);
    }
    if (rounds.empty()) return start;
    SplitMix64 random(MixKey(MixKey(spec_.seed, std::string_view("start")), number));
    const double share = spec_.start_from + (spec_.start_to - spec_.start_from) * random.Unit();
    const auto drawn = static_cast<size_t>(share * static_cast<double>(rounds.size()));
    const size_t round = std::min(drawn, rounds.size() - 1);
    if (round == 0) return start;
    start.primer = rounds[round - 1];
    // Sub-agents that had begun before that round are over or beyond rejoining.
    std::vector<std::string> begun;
    for (size_t i = 0; i < rounds[round]; ++i) begun.push_back(session.requests[i].agent);
    for (size_t i = 0; i < session.requests.size(); ++i) {
      const auto& agent = session.requests[i].agent;
      const bool old = !agent.empty() && std::find(begun.begin(), begun.end(), agent) != begun.end();
      start.keeps[i] = i >= rounds[round] && !old;
    }
    return start;
  }

  Prompt PromptOf(const AgenticSession& session, uint64_t number, size_t index,
                  const std::vector<uint64_t>& blocks) const {
    const uint64_t scope = session.local_scope ? MixKey(root_, number + 1) : root_;
    const AgenticRequest& request = session.requests[index];
    Prompt prompt;
    prompt.reserve(blocks.size() + 1);
    int64_t left = request.input_tokens;
    for (const uint64_t block : blocks) {
      const int64_t tokens = std::min<int64_t>(left, session.block_tokens);
      left -= tokens;
      prompt.push_back({MixKey(scope, block), static_cast<uint32_t>(ScaleTokens(tokens, spec_.token_scale))});
    }
    if (left > 0) {
      // The tail of less than a block, of which nothing is known: no other prompt has it.
      const uint64_t key = MixKey(MixKey(MixKey(root_, std::string_view("tail")), number), index);
      prompt.push_back({key, static_cast<uint32_t>(ScaleTokens(left, spec_.token_scale))});
    }
    return prompt;
  }

  Turn TurnOf(const AgenticSession& session, uint64_t number, size_t index,
              const std::vector<uint64_t>& blocks, const std::vector<int>& place, bool primed) const {
    const AgenticRequest& request = session.requests[index];
    Turn turn;
    turn.prompt = PromptOf(session, number, index, blocks);
    turn.output_tokens = ScaleTokens(std::max<int64_t>(request.output_tokens, 1), spec_.token_scale);
    turn.agent = request.agent;
    if (request.answer_seconds) turn.service = Nanoseconds(std::llround(*request.answer_seconds * 1e9));
    for (const uint32_t before : request.after) {
      if (place[before] >= 0) turn.after.push_back(static_cast<uint32_t>(place[before]));
    }
    if (turn.after.empty() && primed) turn.after.push_back(0);
    if (spec_.recorded_think && !turn.after.empty()) {
      auto think = Nanoseconds(std::llround(request.think_seconds.value_or(0) * spec_.time_scale * 1e9));
      if (spec_.think_cap) think = std::min(think, *spec_.think_cap);
      turn.think = think;
    }
    return turn;
  }

  WorkloadSpec spec_;
  std::vector<AgenticSession> sessions_;
  uint64_t root_;
};

}  // namespace

std::unique_ptr<Workload> MakeAgentic(const WorkloadSpec& spec, std::vector<AgenticSession> sessions) {
  return std::make_unique<AgenticWorkload>(spec, std::move(sessions));
}

}  // namespace poolmark::workload
