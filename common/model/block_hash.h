// Identity of KV blocks: a block's KV depends on all tokens before it, so the hash of a block is chained
// over its prefix (as vLLM's prefix caching does it). Equal hashes mean equal prefixes, up to collisions
// of 64 bits. Pure, thread-safe, the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace poolmark::model {

using BlockHash = uint64_t;
using Token = uint32_t;

// Hashes of the whole blocks of `tokens`, first to last; a tail shorter than `block_tokens` has none.
// Another `seed` gives other hashes for the same tokens: two engines with different seeds share nothing.
std::vector<BlockHash> HashBlocks(std::span<const Token> tokens, size_t block_tokens, uint64_t seed);

// The hash of one block after `parent` (0 for the first one).
BlockHash ChainHash(BlockHash parent, std::span<const Token> block, uint64_t seed);

// The hash of a run of tokens whatever stands before it: chunks that are reused at other positions.
BlockHash ContentHash(std::span<const Token> tokens, uint64_t seed);

}  // namespace poolmark::model
