#include "common/workload/synthetic.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace poolmark::workload {
namespace {

enum Part : uint64_t { kPrefix = 1, kHistory, kQuestion, kAnswer };

class Sessions final : public Workload {
 public:
  explicit Sessions(const WorkloadSpec& spec) : spec_(spec), root_(MixKey(spec.seed, spec.marker)) {
    if (!spec.rate.empty()) DrawArrivals(spec.rate.front());
  }

  uint64_t sessions() const override { return static_cast<uint64_t>(spec_.sessions); }

  Script Open(uint64_t number) const override { return Make(number, true); }
  Script Outline(uint64_t number) const override { return Make(number, false); }

 private:
  Script Make(uint64_t number, bool with_prompts) const {
    const uint64_t group = number % static_cast<uint64_t>(spec_.groups);
    const auto scaled = [&](int64_t tokens) {
      return static_cast<uint32_t>(ScaleTokens(tokens, spec_.token_scale));
    };
    Script script;
    script.id = "s" + std::to_string(number);
    Prompt prompt;
    const auto add = [&](uint64_t key, int64_t tokens, Role role) {
      if (with_prompts && tokens > 0) prompt.push_back({key, scaled(tokens), role});
    };
    add(MixKey(MixKey(root_, kPrefix), group), spec_.prefix, Role::kSystem);
    add(MixKey(MixKey(root_, kHistory), number), spec_.history, Role::kUser);
    for (int64_t t = 0; t < spec_.turns; ++t) {
      const uint64_t question = MixKey(MixKey(MixKey(root_, kQuestion), number), static_cast<uint64_t>(t));
      add(question, t == 0 ? spec_.input : spec_.growth, Role::kUser);
      Turn turn;
      if (with_prompts) turn.prompt = prompt;
      turn.output_tokens = scaled(spec_.output);
      turn.think = t == 0 ? Nanoseconds(0) : spec_.think;
      turn.answer = {MixKey(MixKey(MixKey(root_, kAnswer), number), static_cast<uint64_t>(t)),
                     scaled(spec_.output), Role::kAssistant};
      if (timed_) {
        const size_t slot = Slot(number, t);
        if (slot >= arrivals_.size()) break;
        turn.at = arrivals_[slot];
        turn.think = Nanoseconds(0);
      }
      if (with_prompts) prompt.push_back(turn.answer);
      script.turns.push_back(std::move(turn));
    }
    return script;
  }

  void DrawArrivals(const RateLevel& rate) {
    timed_ = true;
    const double think = std::chrono::duration<double>(spec_.think).count();
    const auto wanted =
        std::max<int64_t>(1, static_cast<int64_t>(std::ceil(rate.value * std::max(think, 1.0))));
    users_ = static_cast<uint64_t>(std::min(spec_.users.value_or(wanted), spec_.sessions));
    const uint64_t rounds = (sessions() + users_ - 1) / users_;
    const uint64_t slots = rounds * users_ * static_cast<uint64_t>(spec_.turns);
    load::ArrivalSchedule schedule(ArrivalsOf(spec_, rate, MixKey(root_, std::string_view("arrivals"))));
    arrivals_.reserve(slots);
    while (arrivals_.size() < slots) {
      const auto at = schedule.Next();
      if (!at) break;  // the last step has an end: later turns are not sent
      arrivals_.push_back(*at);
    }
  }

  size_t Slot(uint64_t number, int64_t turn) const {
    const uint64_t user = number % users_;
    const uint64_t round = number / users_;
    return user + users_ * (round * static_cast<uint64_t>(spec_.turns) + static_cast<uint64_t>(turn));
  }

  WorkloadSpec spec_;
  uint64_t root_;
  uint64_t users_ = 1;
  bool timed_ = false;                 // open loop
  std::vector<Nanoseconds> arrivals_;  // by slot
};

}  // namespace

std::unique_ptr<Workload> MakeSessions(const WorkloadSpec& spec) {
  return std::make_unique<Sessions>(spec);
}

double ExpectedReusableShare(const WorkloadSpec& spec, uint32_t block_tokens) {
  const auto scaled = [&](int64_t tokens) { return ScaleTokens(tokens, spec.token_scale); };
  const auto cut = [&](int64_t tokens) { return tokens / block_tokens * block_tokens; };
  const int64_t prefix = scaled(spec.prefix);
  const int64_t output = scaled(spec.output);
  int64_t prompt = prefix + scaled(spec.history) + scaled(spec.input);
  const int64_t groups = std::min(spec.groups, spec.sessions);
  double total = static_cast<double>(spec.sessions) * static_cast<double>(prompt);
  double reused = static_cast<double>(spec.sessions - groups) * static_cast<double>(cut(prefix));
  for (int64_t t = 1; t < spec.turns; ++t) {
    const int64_t before = prompt + (spec.live_answers ? output : 0);
    prompt += output + scaled(spec.growth);
    total += static_cast<double>(spec.sessions) * static_cast<double>(prompt);
    reused += static_cast<double>(spec.sessions) * static_cast<double>(cut(std::min(before, prompt)));
  }
  return total == 0 ? 0 : reused / total;
}

}  // namespace poolmark::workload
