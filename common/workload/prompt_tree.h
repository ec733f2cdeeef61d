// All prompts of a workload so far as a tree of spans: how much of the next one was there before, and how far
// back. The latter are Mattson's stack distances (Mattson et al., "Evaluation techniques for storage
// hierarchies", 1970) over blocks, kept by runs: a prompt uses the blocks of its path from the root on, last
// block first, so that what is left of the use of an earlier request is one run of its path. A request costs
// time by its spans, whatever their lengths. Pure; an object is not thread-safe.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/workload/prompt.h"

namespace poolmark::workload {

// How much of a stream of requests an LRU cache of each size would find. The caller knows which request used
// a block last.
class RunDistances {
 public:
  // Requests are numbered from 0; until End() the next one is under way.
  uint32_t request() const { return static_cast<uint32_t>(sums_.size() - 1); }
  // Of the request under way, in the order of its prompt: blocks that `request` used last, one after the
  // other, all that lies between being used by this one already. Without `counts` they only fill the caches.
  void Use(uint32_t request, uint64_t blocks, bool counts);
  void UseNew(uint64_t blocks) { distinct_ += blocks, used_ += blocks; }
  void End();

  // The size at which a cache is as good as one without bound.
  uint64_t distinct_blocks() const { return distinct_; }
  uint64_t FoundWith(uint64_t cache_blocks) const;

 private:
  std::vector<uint64_t> sums_ = {0};  // Fenwick tree over requests, from 1: blocks that each used last
  uint64_t used_ = 0;                 // by the request under way
  uint64_t distinct_ = 0;
  // For every whole number from a start to before its end, one block was found by caches of that size and
  // larger ones only.
  std::vector<uint64_t> starts_, ends_;
};

class PromptTree {
 public:
  // Without `distances` only tokens are counted.
  PromptTree(uint32_t block_tokens, bool distances) : block_tokens_(block_tokens), counted_(distances) {}

  // Adds a prompt and its answer, which no tokens leave out. Returns the tokens from the prompt's begin that
  // an earlier prompt or answer had. `counts`: its blocks count in FoundWith.
  int64_t Use(const Prompt& prompt, const Span& answer, bool counts);

  int64_t distinct_tokens() const { return distinct_; }
  // Whole blocks: none without `distances`.
  uint64_t distinct_blocks() const { return distances_.distinct_blocks(); }
  uint64_t FoundWith(uint64_t cache_blocks) const { return distances_.FoundWith(cache_blocks); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Of the blocks whose last token lies in a span, those up to `end` were last used by `request`; from there
  // on by that of the next run, which is an earlier one. An end of 0 is no run.
  struct Run {
    uint32_t end = 0;
    uint32_t request = 0;
    uint32_t next = kNone;  // in runs_
  };
  // Spans of one key after the same tokens share all that the shorter has.
  struct Edge {
    uint32_t longest = 0;  // tokens
    Run last;
  };
  // Where a walk through one prompt is.
  struct Walk {
    uint64_t node = 0;
    int64_t tokens = 0;
    int64_t matched = 0;
    bool matches = true;
    bool counts = true;
    // Blocks that are not yet told to distances_.
    uint32_t request = 0;
    uint64_t blocks = 0;
  };

  void Add(const Span& span, Walk* walk);
  void UseBlocks(uint32_t blocks, Edge* edge, Walk* walk);
  void Flush(Walk* walk);
  uint32_t Keep(const Run& run);
  Run Take(uint32_t at);  // none at kNone

  const uint32_t block_tokens_;
  const bool counted_;
  absl::flat_hash_map<uint64_t, Edge> edges_;  // by the node before and the key
  std::vector<Run> runs_;                      // all but each edge's last
  std::vector<uint32_t> free_;
  int64_t distinct_ = 0;
  RunDistances distances_;
};

}  // namespace poolmark::workload
