#include "common/workload/prompt_tree.h"

#include <algorithm>

namespace poolmark::workload {
namespace {

constexpr uint64_t kRoot = 0x706f6f6c6d61726b;

// Sum over `from` of the whole numbers from each on, up to `last`.
uint64_t UpTo(const std::vector<uint64_t>& from, uint64_t last) {
  uint64_t out = 0;
  for (const uint64_t first : from) out += first <= last ? last - first + 1 : 0;
  return out;
}

}  // namespace

void RunDistances::Use(uint32_t request, uint64_t blocks, bool counts) {
  if (counts) {
    uint64_t not_later = 0;  // used last by this request or one before it
    for (size_t i = size_t{request} + 1; i > 0; i &= i - 1) not_later += sums_[i];
    const uint64_t start = distinct_ - not_later + 1;
    if (!ends_.empty() && ends_.back() == start) {
      ends_.back() += blocks;
    } else {
      starts_.push_back(start);
      ends_.push_back(start + blocks);
    }
  }
  for (size_t i = size_t{request} + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] -= blocks;
  used_ += blocks;
}

void RunDistances::End() {
  const size_t at = sums_.size();
  uint64_t sum = used_;
  for (size_t i = at - 1; i > (at & (at - 1)); i &= i - 1) sum += sums_[i];
  sums_.push_back(sum);
  used_ = 0;
}

uint64_t RunDistances::FoundWith(uint64_t cache_blocks) const {
  return UpTo(starts_, cache_blocks) - UpTo(ends_, cache_blocks);
}

int64_t PromptTree::Use(const Prompt& prompt, const Span& answer, bool counts) {
  Walk walk;
  walk.node = kRoot;
  walk.counts = counts;
  for (const Span& span : prompt) Add(span, &walk);
  Flush(&walk);
  const int64_t matched = walk.matched;
  // The answer fills the caches too, and the prompt that follows finds it there.
  walk.counts = false;
  Add(answer, &walk);
  Flush(&walk);
  if (counted_) distances_.End();
  return matched;
}

void PromptTree::Add(const Span& span, Walk* walk) {
  if (span.tokens == 0) return;
  const uint64_t key = MixKey(walk->node, span.key);
  Edge& edge = edges_[key];
  if (walk->matches) walk->matched += std::min(span.tokens, edge.longest);
  walk->matches = walk->matches && span.tokens <= edge.longest;
  if (span.tokens > edge.longest) {
    distinct_ += span.tokens - edge.longest;
    edge.longest = span.tokens;
  }
  walk->node = MixKey(key, span.tokens);
  const int64_t before = walk->tokens / block_tokens_;
  walk->tokens += span.tokens;
  if (counted_) UseBlocks(static_cast<uint32_t>(walk->tokens / block_tokens_ - before), &edge, walk);
}

void PromptTree::UseBlocks(uint32_t blocks, Edge* edge, Walk* walk) {
  if (blocks == 0) return;
  uint32_t done = 0;
  Run run = edge->last;
  while (run.end > 0) {
    const uint32_t part = std::min(run.end, blocks) - done;
    if (walk->request != run.request) Flush(walk);
    walk->request = run.request;
    walk->blocks += part;
    done += part;
    if (run.end >= blocks) break;
    run = Take(run.next);
  }
  if (done < blocks) {  // and so all that follow
    Flush(walk);
    distances_.UseNew(blocks - done);
  }
  edge->last = {blocks, distances_.request(), run.end > blocks ? Keep(run) : run.next};
}

void PromptTree::Flush(Walk* walk) {
  if (walk->blocks > 0) distances_.Use(walk->request, walk->blocks, walk->counts);
  walk->blocks = 0;
}

uint32_t PromptTree::Keep(const Run& run) {
  if (free_.empty()) {
    runs_.push_back(run);
    return static_cast<uint32_t>(runs_.size() - 1);
  }
  const uint32_t at = free_.back();
  free_.pop_back();
  runs_[at] = run;
  return at;
}

PromptTree::Run PromptTree::Take(uint32_t at) {
  if (at == kNone) return {};
  free_.push_back(at);
  return runs_[at];
}

}  // namespace poolmark::workload
