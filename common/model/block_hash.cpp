#include "common/model/block_hash.h"

namespace poolmark::model {
namespace {

// The finaliser of SplitMix64: every input bit reaches every output bit.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

BlockHash ChainHash(BlockHash parent, std::span<const Token> block, uint64_t seed) {
  uint64_t hash = Mix(parent + 0x9e3779b97f4a7c15ull) ^ Mix(seed + 0xd1b54a32d192ed03ull);
  for (Token token : block) hash = Mix((hash ^ token) * 0xff51afd7ed558ccdull + 0x9e3779b97f4a7c15ull);
  hash = Mix(hash ^ block.size());
  return hash == 0 ? 1 : hash;  // 0 stands for "no parent"
}

std::vector<BlockHash> HashBlocks(std::span<const Token> tokens, size_t block_tokens, uint64_t seed) {
  std::vector<BlockHash> hashes;
  if (block_tokens == 0) return hashes;
  hashes.reserve(tokens.size() / block_tokens);
  BlockHash parent = 0;
  for (size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens) {
    parent = ChainHash(parent, tokens.subspan(at, block_tokens), seed);
    hashes.push_back(parent);
  }
  return hashes;
}

BlockHash ContentHash(std::span<const Token> tokens, uint64_t seed) {
  return ChainHash(0, tokens, ~seed);
}

}  // namespace poolmark::model
