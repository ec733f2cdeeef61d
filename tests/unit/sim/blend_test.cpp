#include "agent/sim/blend.h"

#include <catch2/catch.hpp>
#include <numeric>

using namespace poolmark::sim;

namespace {

std::vector<Token> Range(Token first, size_t count) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<Token> Join(std::initializer_list<std::vector<Token>> parts) {
  std::vector<Token> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("chunks are found at their prefix, and at other offsets as moved") {
  Blend blend(8, 1000, 0, 0);
  BlendCounters counters;
  std::vector<Token> head = Range(100, 8);
  std::vector<Token> one = Range(1000, 16);
  std::vector<Token> two = Range(2000, 16);
  CHECK(blend.Lookup(Join({head, one}), &counters).total() == 0);
  CHECK(blend.Lookup(Join({head, two}), &counters).prefix_tokens == 8);
  CHECK(counters.fingerprints_registered == 5);

  BlendHit same = blend.Lookup(Join({head, one}), &counters);
  CHECK(same.prefix_tokens == 24);
  CHECK(same.non_prefix_tokens == 0);

  // The second passage behind the first, and shifted off the grid by three tokens.
  BlendHit moved = blend.Lookup(Join({head, one, Range(5, 3), two, Range(9000, 5)}), &counters);
  CHECK(moved.prefix_tokens == 24);
  CHECK(moved.non_prefix_tokens == 16);
  CHECK(counters.requested_tokens == 24 + 24 + 24 + 48);
  CHECK(counters.stale_chunks == 0);
}

TEST_CASE("data that were replaced are stale, and the chunk behind a gap is a segmented hit") {
  BlendCounters counters;
  Blend small(8, 2, 0, 0);
  small.Lookup(Range(0, 16), &counters);
  small.Lookup(Range(500, 8), &counters);  // replaces the first chunk's data
  BlendHit hit = small.Lookup(Range(0, 16), &counters);
  CHECK(hit.prefix_tokens == 0);
  CHECK(hit.segmented_tokens == 8);
  CHECK(counters.stale_chunks == 1);
}

TEST_CASE("an empty blend cache after clearing") {
  Blend blend(4, 100, 0, 0);
  BlendCounters counters;
  blend.Lookup(Range(0, 40), &counters);
  blend.Clear();
  CHECK(blend.Lookup(Range(0, 40), &counters).total() == 0);
  CHECK(blend.Lookup({}, &counters).total() == 0);
}
