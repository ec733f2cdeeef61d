// One request inside the engine. Of the engine's thread, under its lock.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/sim/api.h"
#include "agent/sim/blend.h"
#include "agent/sim/reply_stream.h"
#include "common/model/tiers.h"

namespace poolmark::sim {

struct Sequence {
  enum class State { kWaiting, kLoading, kPrefill, kDecode };

  uint64_t number = 0;
  GenerateRequest request;
  std::unique_ptr<ReplyStream> reply;
  std::string id;
  int64_t max_tokens = 0;
  bool max_tokens_given = false;
  State state = State::kWaiting;
  Nanoseconds arrived{0}, admitted{0}, ready_at{0}, first_token{0}, last_token{0};

  // The prompt's blocks. `hashes` are of whole ones; `tail` are the tokens behind the last whole block, which
  // grow with the output.
  std::vector<model::BlockHash> hashes;
  std::vector<Token> tail;
  std::vector<model::BlockHash> prompt_hashes;  // with one for the half-filled last block of the prompt
  size_t found = 0;                             // blocks from the front that need not be computed
  size_t reserved = 0;                          // GPU blocks without identity that it holds
  std::vector<model::BlockHash> pinned;
  std::array<int64_t, 5> cached{};  // tokens by model::Tier
  bool handed_over = false;         // the whole prompt came from a prefill engine
  BlendHit blend;

  int64_t prompt_tokens() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t cached_tokens() const { return cached[0] + cached[1] + cached[2] + cached[3]; }
  int64_t computed = 0;  // prompt tokens whose KV is there
  int64_t chunk = 0;     // of them in this step

  // Output.
  uint64_t text_hash = 0;
  std::optional<std::vector<Token>> script;
  bool script_cut = false;
  int64_t produced = 0;
  std::string pending_text;  // not yet sent: several tokens per event
  int64_t pending_tokens = 0;
  std::string pending_field;
};

}  // namespace poolmark::sim
