#include "common/workload/reuse.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "common/model/stack_distance.h"
#include "common/workload/open_scripts.h"

namespace poolmark::workload {
namespace {

// All prompts so far as a tree of spans. Spans of other keys share no token, so two prompts are equal as far
// as their spans are, and the last one as far as the shorter of both.
class PromptTree {
 public:
  int64_t Match(const Prompt& prompt) const {
    int64_t matched = 0;
    uint64_t node = kRoot;
    for (const Span& span : prompt) {
      const uint64_t edge = MixKey(node, span.key);
      const auto at = longest_.find(edge);
      if (at == longest_.end()) break;
      matched += std::min(span.tokens, at->second);
      if (span.tokens > at->second) break;
      node = MixKey(edge, span.tokens);
    }
    return matched;
  }

  void Insert(const Prompt& prompt, const Span& answer) {
    uint64_t node = kRoot;
    for (const Span& span : prompt) node = Add(node, span);
    if (answer.tokens > 0) Add(node, answer);
  }
  int64_t distinct_tokens() const { return distinct_; }

 private:
  static constexpr uint64_t kRoot = 0x706f6f6c6d61726b;

  uint64_t Add(uint64_t node, const Span& span) {
    const uint64_t edge = MixKey(node, span.key);
    uint32_t& longest = longest_[edge];
    if (span.tokens > longest) {
      distinct_ += span.tokens - longest;
      longest = span.tokens;
    }
    return MixKey(edge, span.tokens);
  }

  absl::flat_hash_map<uint64_t, uint32_t> longest_;  // (node before, key) -> tokens
  int64_t distinct_ = 0;
};

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

// Hashes of the whole blocks of a prompt, each with all before it.
void BlockHashes(const Prompt& prompt, uint32_t block_tokens, std::vector<uint64_t>* out) {
  out->clear();
  uint64_t chain = 1;
  uint32_t filled = 0;
  for (const Span& span : prompt) {
    uint32_t at = 0;
    while (at < span.tokens) {
      const uint32_t part = std::min(block_tokens - filled, span.tokens - at);
      chain = MixKey(MixKey(chain, span.key), (static_cast<uint64_t>(at) << 32) | part);
      at += part;
      filled += part;
      if (filled < block_tokens) continue;
      out->push_back(chain);
      filled = 0;
    }
  }
}

std::vector<std::pair<double, double>> Curve(const model::StackDistance& distances, uint32_t block_tokens,
                                             int64_t prompt_tokens) {
  std::vector<std::pair<double, double>> curve = {{0, 0}};
  const uint64_t most = distances.distinct_blocks();
  if (most == 0 || prompt_tokens == 0) return curve;
  constexpr int kPoints = 60;
  uint64_t last = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const auto blocks = static_cast<uint64_t>(
        std::ceil(std::pow(static_cast<double>(most), static_cast<double>(i) / kPoints)));
    if (blocks == last) continue;
    last = blocks;
    const double found = static_cast<double>(distances.FoundWith(blocks)) * block_tokens;
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
  PromptTree tree;
  LiveTokens live;
  OpenScripts scripts(workload, arrivals);
  model::StackDistance distances;
  std::vector<uint64_t> blocks;
  using Ending = std::pair<Nanoseconds, uint64_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings;
  const auto count = [&](const Turn& turn, bool counts) {
    const int64_t uncut = tree.Match(turn.prompt);
    tree.Insert(turn.prompt, options.live_answers ? turn.answer : Span{});
    ++out.lifetime_requests;
    out.lifetime_prompt_tokens += TokensOf(turn.prompt);
    out.lifetime_reusable_tokens_uncut += uncut;
    out.lifetime_reusable_tokens += uncut / out.block_tokens * out.block_tokens;
    if (options.curve) {
      BlockHashes(turn.prompt, out.block_tokens, &blocks);
      distances.Request(blocks, blocks.size(), counts);
      if (options.live_answers && turn.answer.tokens > 0) {
        // The answer fills the caches too, and the prompt that follows finds it there.
        Prompt with_answer = turn.prompt;
        with_answer.push_back(turn.answer);
        BlockHashes(with_answer, out.block_tokens, &blocks);
        distances.Request(blocks, blocks.size(), false);
      }
    }
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
  if (options.curve) out.curve = Curve(distances, out.block_tokens, out.prompt_tokens);
  return out;
}

}  // namespace poolmark::workload
