#include "controller/stacks/stack_digest.h"

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"

namespace poolmark::controller {

std::string StackDigest(const spec::StackSpec& stack) {
  const spec::KvFormat& kv = stack.kv;
  std::string text = "stack\n";
  const auto add = [&](const auto& value) { absl::StrAppend(&text, value, "|"); };
  add(std::string(spec::StrategyName(stack.strategy)));
  const auto end = [&] { text.push_back('\n'); };
  add(kv.path);
  add(kv.compression);
  add(kv.dtype);
  add(kv.block_tokens);
  add(kv.chunk_tokens.value_or(0));
  add(kv.hash_seed.value_or(-1));
  add(kv.serializer);
  end();
  for (const spec::TierSpec& tier : stack.tiers) {
    add(std::string(spec::TierSourceName(tier.source)));
    add(tier.size);
    add(tier.owner);
    end();
  }
  for (const spec::ProcessTemplate& process : stack.processes) {
    add(process.name);
    add(process.exec);
    add(process.image);
    add(process.on);
    add(process.count.value_or(0));
    add(process.gpus.value_or(0));
    for (const spec::ArgWord& word : process.argv) add(absl::StrCat(word.each, ">", word.text));
    for (const auto& [key, value] : process.env) add(absl::StrCat(key, "=", value));
    for (const auto& [path, content] : process.files) add(absl::StrCat(path, "=", Sha256Hex(content)));
    end();
  }
  for (const auto& [key, value] : stack.params) add(absl::StrCat(key, "=", value));
  if (stack.relay == "store") add("relay=store");
  return Sha256Hex(text, 16);
}

}  // namespace poolmark::controller
