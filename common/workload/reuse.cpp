#include "common/workload/reuse.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "common/workload/open_scripts.h"
#include "common/workload/prompt_tree.h"

namespace poolmark::workload {
namespace {

// Distinct tokens of the conversations that live at a time. A conversation is a session and an agent in it.
class LiveTokens {
 public:
  void Set(uint64_t session, const std::string& agent, const Prompt& prompt, int64_t output_tokens) {
    Path& path = live_[session][agent];
    size_t same = 0;
    uint64_t node = 0;
    std::vector<Node> nodes;
    nodes.reserve(prompt.size());
    for (const Span& span : prompt) {
      node = MixKey(MixKey(node, span.key), span.tokens);
      nodes.push_back({node, span.tokens});
    }
    while (same < nodes.size() && same < path.nodes.size() && nodes[same].id == path.nodes[same].id) ++same;
    Release(path, same);
    for (size_t i = same; i < nodes.size(); ++i) {
      if (++counts_[nodes[i].id] == 1) tokens_ += nodes[i].tokens;
    }
    path.nodes = std::move(nodes);
    path.output = output_tokens;
    tokens_ += output_tokens;
  }
  void End(uint64_t session) {
    const auto at = live_.find(session);
    if (at == live_.end()) return;
    for (auto& [agent, path] : at->second) Release(path, 0);
    live_.erase(at);
  }
  int64_t tokens() const { return tokens_; }
  size_t sessions() const { return live_.size(); }

 private:
  struct Node {
    uint64_t id;
    uint32_t tokens;
  };
  struct Path {
    std::vector<Node> nodes;
    int64_t output = 0;
  };

  void Release(Path& path, size_t from) {
    for (size_t i = from; i < path.nodes.size(); ++i) {
      const auto at = counts_.find(path.nodes[i].id);
      if (--at->second > 0) continue;
      counts_.erase(at);
      tokens_ -= path.nodes[i].tokens;
    }
    tokens_ -= path.output;
    path.output = 0;
  }

  std::unordered_map<uint64_t, std::map<std::string, Path>> live_;
  absl::flat_hash_map<uint64_t, uint32_t> counts_;
  int64_t tokens_ = 0;
};

std::vector<std::pair<double, double>> Curve(const PromptTree& tree, uint32_t block_tokens,
                                             int64_t prompt_tokens) {
  std::vector<std::pair<double, double>> curve = {{0, 0}};
  const uint64_t most = tree.distinct_blocks();
  if (most == 0 || prompt_tokens == 0) return curve;
  constexpr int kPoints = 60;
  uint64_t last = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const auto blocks = static_cast<uint64_t>(
        std::ceil(std::pow(static_cast<double>(most), static_cast<double>(i) / kPoints)));
    if (blocks == last) continue;
    last = blocks;
    const double found = static_cast<double>(tree.FoundWith(blocks)) * block_tokens;
    curve.emplace_back(static_cast<double>(blocks) * block_tokens,
                       found / static_cast<double>(prompt_tokens));
  }
  return curve;
}

Measured<double> Share(int64_t part, int64_t whole) {
  if (whole <= 0) return NotMeasured{"no request counts"};
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Measured<double> Reuse::share() const {
  return Share(reusable_tokens, prompt_tokens);
}
Measured<double> Reuse::share_uncut() const {
  return Share(reusable_tokens_uncut, prompt_tokens);
}
Measured<double> Reuse::share_lifetime() const {
  return Share(lifetime_reusable_tokens, lifetime_prompt_tokens);
}
Measured<double> Reuse::share_lifetime_uncut() const {
  return Share(lifetime_reusable_tokens_uncut, lifetime_prompt_tokens);
}

uint32_t DefaultBlockTokens(const Workload& workload) {
  const uint32_t own = workload.natural_block_tokens();
  return own > 0 ? own : 16;
}

Reuse Analyse(const Workload& workload, const std::vector<Arrival>& arrivals, const ReuseOptions& options) {
  Reuse out;
  out.block_tokens = std::max<uint32_t>(options.block_tokens, 1);
  PromptTree tree(out.block_tokens, options.curve);
  LiveTokens live;
  OpenScripts scripts(workload, arrivals);
  using Ending = std::pair<Nanoseconds, uint64_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings;
  const auto count = [&](const Turn& turn, bool counts) {
    const int64_t uncut = tree.Use(turn.prompt, options.live_answers ? turn.answer : Span{}, counts);
    ++out.lifetime_requests;
    out.lifetime_prompt_tokens += TokensOf(turn.prompt);
    out.lifetime_reusable_tokens_uncut += uncut;
    out.lifetime_reusable_tokens += uncut / out.block_tokens * out.block_tokens;
    return uncut;
  };
  if (options.warm_pass) {
    OpenScripts before(workload, arrivals);
    for (const Arrival& arrival : arrivals) {
      if (const Turn* turn = before.Take(arrival)) count(*turn, false);
      before.Done(arrival);
    }
  }
  for (const Arrival& arrival : arrivals) {
    const Turn* const taken = scripts.Take(arrival);
    if (taken == nullptr) {
      ++out.unknown_turns;
      if (options.keep_each) out.reusable_of.push_back(0);
      scripts.Done(arrival);
      continue;
    }
    const Turn& turn = *taken;
    while (!endings.empty() && endings.top().first <= arrival.start) {
      live.End(endings.top().second);
      endings.pop();
    }
    const int64_t tokens = TokensOf(turn.prompt);
    const int64_t uncut = count(turn, arrival.counts);
    const int64_t cut = uncut / out.block_tokens * out.block_tokens;
    if (arrival.counts) {
      ++out.requests;
      out.requests_with_reuse += cut > 0 ? 1 : 0;
      out.prompt_tokens += tokens;
      out.output_tokens += turn.output_tokens;
      out.reusable_tokens += cut;
      out.reusable_tokens_uncut += uncut;
    }
    if (options.keep_each) out.reusable_of.push_back(cut);
    live.Set(arrival.session, turn.agent, turn.prompt, turn.output_tokens);
    out.working_set_tokens = std::max(out.working_set_tokens, live.tokens());
    out.live_conversations = std::max<uint64_t>(out.live_conversations, live.sessions());
    if (scripts.Done(arrival)) endings.push({scripts.EndOf(arrival.session), arrival.session});
  }
  out.distinct_tokens = tree.distinct_tokens();
  if (options.curve) out.curve = Curve(tree, out.block_tokens, out.prompt_tokens);
  return out;
}

}  // namespace poolmark::workload
