#include "agent/sim/kv_format.h"

#include <cstring>

#include "common/base/random.h"

namespace poolmark::sim {
namespace {

constexpr char kMagic[4] = {'P', 'M', 'K', 'V'};
constexpr uint32_t kVersion = 1;

struct FixedHeader {
  char magic[4];
  uint32_t version;
  uint32_t format_bytes;
  uint32_t reserved;
  uint64_t hash;
  uint64_t payload_bytes;
};
static_assert(sizeof(FixedHeader) == 32);

}  // namespace

std::string KvFormat::ToString() const {
  return "model=" + model + ";dtype=" + dtype + ";kv_dtype=" + kv_dtype +
         ";block=" + std::to_string(block_tokens) + ";layers=" + std::to_string(layers) +
         ";heads=" + std::to_string(heads) + ";seed=" + std::to_string(hash_seed);
}

std::string EncodeBlock(const KvFormat& format, BlockHash hash, uint64_t payload_bytes) {
  std::string text = format.ToString();
  FixedHeader header{};
  std::memcpy(header.magic, kMagic, 4);
  header.version = kVersion;
  header.format_bytes = static_cast<uint32_t>(text.size());
  header.hash = hash;
  header.payload_bytes = payload_bytes;
  std::string bytes(sizeof header + text.size() + payload_bytes, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, text.data(), text.size());
  char* out = bytes.data() + sizeof header + text.size();
  SplitMix64 pattern(hash);
  for (uint64_t at = 0; at < payload_bytes; at += 8) {
    uint64_t word = pattern.Next();
    std::memcpy(out + at, &word, payload_bytes - at < 8 ? payload_bytes - at : 8);
  }
  return bytes;
}

BlockCheck CheckBlock(std::string_view bytes, const KvFormat& format, BlockHash hash,
                      uint64_t payload_bytes) {
  FixedHeader header;
  if (bytes.size() < sizeof header) return BlockCheck::kDamaged;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, 4) != 0) return BlockCheck::kDamaged;
  if (header.version != kVersion) return BlockCheck::kOtherFormat;
  if (header.format_bytes > bytes.size() - sizeof header) return BlockCheck::kDamaged;
  if (bytes.substr(sizeof header, header.format_bytes) != format.ToString()) return BlockCheck::kOtherFormat;
  if (header.payload_bytes != payload_bytes) return BlockCheck::kOtherFormat;
  if (header.hash != hash) return BlockCheck::kOtherBlock;
  std::string_view payload = bytes.substr(sizeof header + header.format_bytes);
  if (payload.size() != payload_bytes) return BlockCheck::kDamaged;
  SplitMix64 pattern(hash);
  for (uint64_t at = 0; at < payload_bytes; at += 8) {
    uint64_t word = pattern.Next();
    if (std::memcmp(payload.data() + at, &word, payload_bytes - at < 8 ? payload_bytes - at : 8) != 0) {
      return BlockCheck::kDamaged;
    }
  }
  return BlockCheck::kOk;
}

std::string HashName(BlockHash hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

bool ParseHashName(std::string_view name, BlockHash* hash) {
  if (name.size() != 16) return false;
  BlockHash value = 0;
  for (char c : name) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    value = value << 4 | static_cast<BlockHash>(digit);
  }
  *hash = value;
  return true;
}

}  // namespace poolmark::sim
