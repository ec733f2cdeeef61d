// Where every prompt token came from: counter changes of one engine and its cache -> five sources and what is
// not attributed (methodology, "Where every prompt token comes from"; decision M7). Which series a dialect
// has is data (deploy/catalogue); how they add up without counting a token twice is here. Pure, thread-safe.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/stats/counted_at.h"

namespace poolmark::stats {

// Changes over the measured window: series name, with its splitting label as a suffix in braces, to change.
// "vllm:prompt_tokens_by_source_total{source=local_compute}",
// "sglang:cached_tokens_total{cache_source=host}", "lmcache_mp_lookup_hit_l1_tokens_total". Labels that do
// not split (model, engine, tp_rank) are summed or taken once by whoever fills it. A key that is missing was
// not exposed; a family that is declared and has no child is 0.
using Deltas = std::map<std::string, double>;

enum class TierPlace { kNone, kHost, kStorage, kRemote };

// What the plan knows of one engine and what the counters cannot say.
struct EngineFacts {
  std::string process;  // "engine-n1"
  std::string machine;
  std::string dialect;  // vllm, sglang, trtllm, llama.cpp, sim
  std::string version;  // "0.32.0"; empty: unknown
  enum class Role { kAggregated, kPrefill, kDecode } role = Role::kAggregated;
  bool has_gpu = true;  // false: its own cache takes the GPU place, labelled "engine cache" (M7)
  // Where KV may lie that the engine calls external, in order of distance; empty: there is none.
  std::vector<TierPlace> external_tiers;
  // Tier of the cache server's second level (LMCache L2) or of SGLang's storage backend.
  TierPlace second_level = TierPlace::kNone;
  Deltas deltas;           // the engine's own series
  Deltas cache;            // of the cache server that serves this engine alone; empty: none
  bool reset = false;      // a counter went backwards in the window
  std::string unreadable;  // why there are no deltas; empty: there are
  // Seconds from the start of the load: the scrape that counts at the window's start; nothing: not known.
  std::optional<double> counters_from;
};

// Tokens. The six parts add up to `prompt`.
struct TokenSources {
  double prompt = 0;
  double gpu = 0, host = 0, storage = 0, remote = 0, computed = 0;
  double not_attributed = 0;
  double reused() const { return gpu + host + storage + remote; }
  void Add(const TokenSources& other);
};

struct EngineAttribution {
  std::string process;
  std::string machine;
  Measured<TokenSources> sources;   // not measured: no witness series, a reset, or a decode engine
  double over = 0;                  // parts in excess of the prompt tokens, cut off (closure error)
  double transferred_tokens = 0;    // decode engines: received from prefill
  double recomputed_on_decode = 0;  // decode engines: more than one token per request computed again
  bool engine_cache_label = false;
  CountedAt counted_at = CountedAt::kFirstToken;  // of the series that sources.prompt is from
  std::vector<std::string> series;                // read
  std::vector<std::string> notes;                 // why something is not attributed
};

EngineAttribution AttributeEngine(const EngineFacts& facts);

struct Attribution {
  Measured<TokenSources> total;  // over the engines that count (prefill side on a split pool)
  std::vector<EngineAttribution> engines;
  // (sum of parts before they were made to close - prompt tokens) / prompt tokens.
  Measured<double> closure_error;
  double skew_tokens =
      0;  // prompts in flight when the counters were read (M7); whoever has the requests adds it
  // (engines' prompt tokens - client's) / client's; more than 2 % is a note.
  Measured<double> client_difference;
  bool complete = false;  // every engine of the pool was read
  std::vector<std::string> notes;
};

// `client_prompt_tokens`: sum of usage.prompt_tokens over the requests of the window, where every request had
// one.
Attribution Attribute(const std::vector<EngineFacts>& engines, std::optional<double> client_prompt_tokens);

// The dialects that AttributeEngine knows.
const std::vector<std::string>& KnownDialects();

}  // namespace poolmark::stats
