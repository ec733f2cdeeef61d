// Sessions of one turn with generated prompts, for runs without a workload file. Every prompt is its own
// (no shared prefix), a function of seed and number. Token counts: exact with prompt ids; else estimated
// at one token for each word, which the run says; exact also with words that are known to be one token each
// and the tokens that every prompt has besides. Thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/load/source.h"

namespace poolmark::load {

struct QuickOptions {
  std::string model;
  bool chat = true;         // else /v1/completions
  bool prompt_ids = false;  // token ids instead of text; needs completions
  int64_t input_tokens = 128;
  int64_t output_tokens = 128;
  bool ignore_eos = true;               // asks for exactly output_tokens where the engine knows the field
  uint64_t vocabulary = 32000;          // ids are drawn from [100, vocabulary)
  std::vector<std::string> words = {};  // of text prompts, no character that JSON escapes; empty: common ones
  int64_t overhead_tokens = 0;          // of every text prompt besides its words
  std::optional<uint64_t> requests;
  uint64_t seed = 1;
};

Result<std::unique_ptr<SessionSource>> MakeQuickSource(const QuickOptions& options);

}  // namespace poolmark::load
