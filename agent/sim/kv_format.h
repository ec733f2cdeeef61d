// The bytes of KV blocks as they lie in host memory, disk files, the shared store and on the wire: a header
// that names the format, then the payload. The payload is a pattern that follows from the block's hash, so
// that a reader can tell whether it got the right bytes without anybody having kept them on a "GPU".
// Pure, thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/block_hash.h"

namespace poolmark::sim {

using model::BlockHash;

// What writer and reader must agree on.
struct KvFormat {
  std::string model = "sim";
  std::string dtype = "bfloat16";
  std::string kv_dtype = "auto";
  uint32_t block_tokens = 16;
  uint32_t layers = 32;
  uint32_t heads = 8;
  uint64_t hash_seed = 0;
  bool operator==(const KvFormat&) const = default;
  // "model=sim;dtype=bfloat16;..."; the header's text.
  std::string ToString() const;
};

// Header and payload of `payload_bytes` for the block.
std::string EncodeBlock(const KvFormat& format, BlockHash hash, uint64_t payload_bytes);

enum class BlockCheck {
  kOk,
  kOtherFormat,  // written by an engine of another model, dtype, block size, ...
  kOtherBlock,   // bytes of another block under this key
  kDamaged,      // truncated, no header, or the payload is not what it should be
};
BlockCheck CheckBlock(std::string_view bytes, const KvFormat& format, BlockHash hash, uint64_t payload_bytes);

// 16 hex digits, the name of a block in files and keys.
std::string HashName(BlockHash hash);
// False when `name` is no such name.
bool ParseHashName(std::string_view name, BlockHash* hash);

}  // namespace poolmark::sim
