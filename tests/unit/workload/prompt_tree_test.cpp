// What the tree of prompts finds, against a stack of blocks taken literally, token by token.
#include "common/workload/prompt_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "common/base/random.h"

using namespace poolmark;
using namespace poolmark::workload;

namespace {

using Tokens = std::vector<std::pair<uint64_t, uint32_t>>;  // key and index: nothing is equal by chance

Tokens TokensOfSpans(const Prompt& prompt) {
  Tokens out;
  for (const Span& span : prompt) {
    for (uint32_t i = 0; i < span.tokens; ++i) out.emplace_back(span.key, i);
  }
  return out;
}

// All blocks in the order of their last use, the last one first.
class Literal {
 public:
  explicit Literal(uint32_t block_tokens) : block_tokens_(block_tokens) {}

  int64_t Use(const Prompt& prompt, const Span& answer, bool counts) {
    const Tokens tokens = TokensOfSpans(prompt);
    size_t matched = 0;
    while (matched < tokens.size() && heads_.contains(Head(tokens, matched + 1))) ++matched;
    const std::vector<Tokens> blocks = Blocks(tokens);
    size_t needed = 0;
    for (const Tokens& block : blocks) {
      const auto at = std::find(stack_.begin(), stack_.end(), block);
      if (at == stack_.end()) break;
      needed = std::max(needed, static_cast<size_t>(at - stack_.begin()) + 1);
      if (counts) ++found_[needed];
    }
    Touch(blocks);
    Prompt held = prompt;
    held.push_back(answer);
    const Tokens all = TokensOfSpans(held);
    Touch(Blocks(all));
    for (size_t i = 1; i <= all.size(); ++i) heads_.insert(Head(all, i));
    return static_cast<int64_t>(matched);
  }
  size_t distinct_tokens() const { return heads_.size(); }
  size_t distinct_blocks() const { return stack_.size(); }
  uint64_t FoundWith(size_t cache_blocks) const {
    uint64_t out = 0;
    for (const auto& [needed, blocks] : found_) out += needed <= cache_blocks ? blocks : 0;
    return out;
  }

 private:
  static Tokens Head(const Tokens& tokens, size_t length) {
    return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length)};
  }
  std::vector<Tokens> Blocks(const Tokens& tokens) const {
    std::vector<Tokens> out;
    for (size_t end = block_tokens_; end <= tokens.size(); end += block_tokens_)
      out.push_back(Head(tokens, end));
    return out;
  }
  void Touch(const std::vector<Tokens>& blocks) {
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      std::erase(stack_, *block);
      stack_.insert(stack_.begin(), *block);
    }
  }

  const uint32_t block_tokens_;
  std::vector<Tokens> stack_;
  std::set<Tokens> heads_;
  std::map<size_t, uint64_t> found_;
};

// A few keys in every place, so that prompts part at every depth, in the middle of spans too.
Prompt RandomPrompt(SplitMix64* random) {
  Prompt out;
  const size_t spans = random->Below(6);
  for (size_t i = 0; i < spans; ++i)
    out.push_back({10 * (i + 1) + random->Below(2), static_cast<uint32_t>(random->Below(9)), Role::kUser});
  return out;
}

}  // namespace

TEST_CASE("the tree of prompts finds for every cache what a stack of blocks finds", "[B2]") {
  for (const uint32_t block_tokens : {1u, 3u, 4u, 7u}) {
    CAPTURE(block_tokens);
    SplitMix64 random(block_tokens);
    PromptTree tree(block_tokens, true), tokens_only(block_tokens, false);
    Literal literal(block_tokens);
    for (int i = 0; i < 250; ++i) {
      CAPTURE(i);
      const Prompt prompt = RandomPrompt(&random);
      const Span answer{10 * (prompt.size() + 1), static_cast<uint32_t>(random.Below(9)), Role::kAssistant};
      const Span held = random.Below(2) == 0 ? answer : Span{};
      const bool counts = random.Below(4) > 0;
      const int64_t found = literal.Use(prompt, held, counts);
      REQUIRE(tree.Use(prompt, held, counts) == found);
      REQUIRE(tokens_only.Use(prompt, held, counts) == found);
      REQUIRE(tree.distinct_blocks() == literal.distinct_blocks());
    }
    CHECK(tree.distinct_tokens() == static_cast<int64_t>(literal.distinct_tokens()));
    CHECK(tokens_only.distinct_tokens() == tree.distinct_tokens());
    REQUIRE(literal.distinct_blocks() > 10);
    CHECK(literal.FoundWith(literal.distinct_blocks()) > 50);
    for (size_t size = 0; size <= literal.distinct_blocks() + 1; ++size) {
      CAPTURE(size);
      REQUIRE(tree.FoundWith(size) == literal.FoundWith(size));
    }
    CHECK(tokens_only.distinct_blocks() == 0);
    CHECK(tokens_only.FoundWith(1000) == 0);
  }
}

TEST_CASE("a prompt of a billion tokens costs no more than a short one", "[B2]") {
  PromptTree tree(16, true);
  const Prompt prompt = {{1, 4'000'000'000u, Role::kUser}, {2, 4'000'000'000u, Role::kUser}};
  CHECK(tree.Use(prompt, {}, true) == 0);
  CHECK(tree.Use(prompt, {}, true) == 8'000'000'000);
  CHECK(tree.distinct_blocks() == 500'000'000);
  CHECK(tree.FoundWith(499'999'999) == 499'999'999);
  CHECK(tree.FoundWith(500'000'001) == 500'000'000);
}
