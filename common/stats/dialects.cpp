#include "common/stats/dialects.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace poolmark::stats {
namespace {

constexpr double kSameMoment = 0.001;  // two sums differ by less than this share: the same tokens

NotMeasured Missing(const std::string& series) {
  return NotMeasured{series + " is not exposed by this engine"};
}

}  // namespace

std::string CountText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

std::optional<double> DialectReader::Get(const std::string& series) {
  const auto at = facts_.deltas.find(series);
  if (at == facts_.deltas.end()) return std::nullopt;
  out_.series.push_back(series);
  return at->second;
}

std::optional<double> DialectReader::FromCache(const std::string& series) {
  const auto at = facts_.cache.find(series);
  if (at == facts_.cache.end()) return std::nullopt;
  out_.series.push_back(series);
  return at->second;
}

Measured<TokenSources> DialectReader::Read() {
  // The simulated engine publishes vLLM's series.
  if (facts_.dialect == "vllm" || facts_.dialect == "sim") return ReadVllm();
  if (facts_.dialect == "sglang") return ReadSglang();
  if (facts_.dialect == "trtllm") return ReadTensorRt();
  if (facts_.dialect == "llama-cpp") return ReadLlamaCpp();
  return NotMeasured{"dialect '" + facts_.dialect + "' has no rule for token sources"};
}

void DialectReader::Place(TierPlace place, double tokens, TokenSources* sources, const std::string& why_not) {
  if (tokens <= 0) return;
  switch (place) {
    case TierPlace::kHost:
      sources->host += tokens;
      return;
    case TierPlace::kStorage:
      sources->storage += tokens;
      return;
    case TierPlace::kRemote:
      sources->remote += tokens;
      return;
    case TierPlace::kNone:
      sources->not_attributed += tokens;
      Note(CountText(tokens) + " tokens not attributed: " + why_not);
  }
}

Measured<TokenSources> DialectReader::ReadVllm() {
  const auto prompt = Get("vllm:prompt_tokens_total");
  if (!prompt) return Missing("vllm:prompt_tokens_total");
  TokenSources sources;
  sources.prompt = *prompt;
  const auto computed = Get("vllm:prompt_tokens_by_source_total{source=local_compute}");
  const auto local = Get("vllm:prompt_tokens_by_source_total{source=local_cache_hit}");
  const auto external = Get("vllm:prompt_tokens_by_source_total{source=external_kv_transfer}");
  if (!computed || !local || !external) {
    // Before 0.16 hits were counted at every lookup and can exceed the prompts many times: they are no
    // source.
    sources.computed = Get("vllm:request_prefill_kv_computed_tokens_sum").value_or(0);
    Note("this vLLM has no prompt_tokens_by_source (first in 0.16): only computed tokens can be told");
    return sources;
  }
  sources.gpu = *local;
  sources.computed = *computed;
  double transferred = *external;
  if (const auto twice = Get("vllm:prompt_tokens_recomputed_total"); twice && *twice > 0) {
    // 0.16 and 0.17 count the last token of a fully cached prompt as computed and as a hit.
    const double from_local = std::min(*twice, sources.gpu);
    sources.gpu -= from_local;
    transferred -= std::min(*twice - from_local, transferred);
  }
  SplitExternal(transferred, &sources);
  DoubtExternalAfterFailures(&sources);
  return sources;
}

void DialectReader::SplitExternal(double external, TokenSources* sources) {
  if (external <= 0) return;
  const std::string family = "vllm:prompt_tokens_cached_by_source_total{source=";
  const auto host = Get(family + "host}"), disk = Get(family + "disk}"), peer = Get(family + "p2p}");
  const auto unspecified = Get(family + "external_unspecified}");
  if (!host && !disk && !peer && !unspecified) return SplitUnspecified(external, sources);
  double parts[] = {host.value_or(0), disk.value_or(0), peer.value_or(0), unspecified.value_or(0)};
  const double sum = parts[0] + parts[1] + parts[2] + parts[3];
  // Counted at admission: after a failed load or across the window's edge they exceed what first tokens saw.
  if (sum > external) {
    for (double& part : parts) part *= external / sum;
  } else if (sum < external) {
    sources->not_attributed += external - sum;
    Note(CountText(external - sum) + " tokens not attributed: admitted outside the window");
  }
  sources->host += parts[0];
  sources->storage += parts[1];
  sources->remote += parts[2];
  SplitUnspecified(parts[3], sources);
}

void DialectReader::SplitUnspecified(double tokens, TokenSources* sources) {
  if (tokens <= 0) return;
  if (!facts_.cache.empty()) return SplitByCacheServer(tokens, sources);
  std::vector<TierPlace> places;
  for (const TierPlace place : facts_.external_tiers) {
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  if (places.size() == 1) return Place(places.front(), tokens, sources, "");
  // In-process LMCache with its own host memory in front of a store: no bytes read from afar, so host.
  const bool host_first =
      places.size() == 2 && places.front() == TierPlace::kHost && places.back() == TierPlace::kRemote;
  if (host_first && Get("lmcache:num_remote_read_bytes_total") == std::optional<double>(0.0)) {
    return Place(TierPlace::kHost, tokens, sources, "");
  }
  Place(TierPlace::kNone, tokens, sources,
        places.empty() ? "the engine took them from outside and the plan names no tier"
                       : "the engine does not say which of several tiers held them");
}

void DialectReader::SplitByCacheServer(double tokens, TokenSources* sources) {
  const auto first = FromCache("lmcache_mp_lookup_hit_l1_tokens_total");
  const auto second = FromCache("lmcache_mp_lookup_hit_l2_tokens_total");
  const double l1 = first.value_or(0), l2 = second.value_or(0);
  if ((!first && !second) || l1 + l2 <= 0) {
    return Place(TierPlace::kNone, tokens, sources, "the cache server does not split its hits by level");
  }
  const std::string why = "the plan does not say where the cache server's second level lies";
  if (l2 == 0) return Place(TierPlace::kHost, tokens, sources, why);
  if (l1 == 0) return Place(facts_.second_level, tokens, sources, why);
  // Hits count from the first token of a prompt, also those that the GPU held already. How the overlap lies
  // over the two levels cannot be told from totals: each level surely has what exceeds it, the rest is
  // unknown.
  const double overlap = l1 + l2 - tokens;
  if (std::abs(overlap) <= kSameMoment * tokens) {
    Place(TierPlace::kHost, tokens * l1 / (l1 + l2), sources, why);
    return Place(facts_.second_level, tokens * l2 / (l1 + l2), sources, why);
  }
  if (overlap < 0) {
    Place(TierPlace::kHost, l1, sources, why);
    Place(facts_.second_level, l2, sources, why);
    return Place(TierPlace::kNone, -overlap, sources,
                 "the cache server counted fewer hits than the engine took");
  }
  const double sure_first = std::max(0.0, l1 - overlap), sure_second = std::max(0.0, l2 - overlap);
  Place(TierPlace::kHost, sure_first, sources, why);
  Place(facts_.second_level, sure_second, sources, why);
  Place(TierPlace::kNone, tokens - sure_first - sure_second, sources,
        "hits of both levels overlap with what the GPU held");
}

void DialectReader::DoubtExternalAfterFailures(TokenSources* sources) {
  double failures = 0;
  for (const char* series :
       {"vllm:nixl_num_failed_transfers_total", "vllm:mooncake_num_failed_transfers_total",
        "vllm:kv_offload_tiering_promotion_job_failures_total"}) {
    failures += Get(series).value_or(0);
  }
  if (failures <= 0) return;
  const auto requests = Get("vllm:request_success_total");
  const double outside = sources->host + sources->storage + sources->remote;
  if (requests && *requests > 0 && failures / *requests <= 0.01) {
    return Note(CountText(failures) + " transfers failed: what came from outside the GPU is an upper bound");
  }
  sources->host = sources->storage = sources->remote = 0;
  sources->not_attributed += outside;
  Note(CountText(failures) + " transfers failed: " + CountText(outside) +
       " tokens from outside the GPU are not attributed");
}

void DialectReader::ReadDecodeSide(const TokenSources& sources) {
  out_.transferred_tokens = sources.host + sources.storage + sources.remote + sources.not_attributed;
  const double requests = Get("vllm:request_success_total").value_or(0);
  out_.recomputed_on_decode = std::max(0.0, sources.computed - requests);
}

Measured<TokenSources> DialectReader::ReadSglang() {
  const TierPlace storage =
      facts_.second_level != TierPlace::kNone ? facts_.second_level : TierPlace::kStorage;
  TokenSources sources;
  const auto prompt = Get("sglang:prompt_tokens_total");
  const std::string effective = "sglang:prefill_effective_tokens_total{mode=";
  if (const auto input = Get(effective + "input}")) {
    const double device = Get(effective + "device_hit}").value_or(0);
    const double host = Get(effective + "host_hit}").value_or(0);
    const double stored = Get(effective + "storage_hit}").value_or(0);
    const double all = *input + device + host + stored;
    // Prompts were finished and none was scheduled: this build does not count at schedule time.
    if (all > 0 || prompt.value_or(0) <= 0) {
      sources.prompt = all;
      sources.computed = *input;
      sources.gpu = device;
      sources.host = host;
      Place(storage, stored, &sources, "");
      return sources;
    }
  }
  if (!prompt) return Missing("sglang:prompt_tokens_total");
  out_.counted_at = CountedAt::kFinish;
  sources.prompt = *prompt;
  const auto cached = ReadSglangCached(storage, &sources);
  const double computed = Get("sglang:uncached_prompt_tokens_histogram_sum").value_or(0);
  if (computed > 0) {
    sources.computed = computed;
  } else if (cached) {
    // Prompt and cached tokens are of the same event (the request's end), so the rest was computed.
    sources.computed = std::max(0.0, *prompt - *cached);
  } else {
    Note(
        "this SGLang gives neither cached nor computed tokens: where its prompt tokens came from is unknown");
  }
  return sources;
}

std::optional<double> DialectReader::ReadSglangCached(TierPlace storage, TokenSources* sources) {
  const std::string family = "sglang:cached_tokens_total";
  const std::string part = family + "{cache_source=";
  double all = 0;
  bool split = false;
  const auto place_unsplit = [&](double change) {
    if (facts_.external_tiers.empty()) {
      sources->gpu += change;  // no split, and nothing but the GPU to come from
    } else {
      Place(TierPlace::kNone, change, sources, "this SGLang gives cached tokens without their source");
    }
  };
  for (auto at = facts_.deltas.lower_bound(part); at != facts_.deltas.end(); ++at) {
    const auto& [series, change] = *at;
    if (!series.starts_with(part)) break;
    split = true;
    out_.series.push_back(series);
    all += change;
    const std::string source = series.substr(part.size());
    if (source == "device}") {
      sources->gpu += change;
    } else if (source == "host}") {
      sources->host += change;
    } else if (source.starts_with("storage")) {
      Place(storage, change, sources, "");
    } else {
      place_unsplit(change);  // "total": requests without a breakdown, no sum of the others
    }
  }
  if (split) return all;  // the plain name is their sum
  const auto unsplit = Get(family);
  if (unsplit) place_unsplit(*unsplit);
  return unsplit;
}

Measured<TokenSources> DialectReader::ReadTensorRt() {
  const auto prompt = Get("trtllm_prompt_tokens_total");
  const auto cached = Get("trtllm_prompt_cached_tokens_total");
  if (!prompt || !cached)
    return Missing(prompt ? "trtllm_prompt_cached_tokens_total" : "trtllm_prompt_tokens_total");
  out_.counted_at = CountedAt::kFinish;
  TokenSources sources;
  sources.prompt = *prompt;
  sources.computed = std::max(0.0, *prompt - *cached);
  const std::string family = "trtllm_prompt_cache_hit_tokens_total{cache_tier=";
  const auto gpu = Get(family + "gpu}"), host = Get(family + "host}"), disk = Get(family + "disk}");
  if (!gpu && !host && !disk) {
    Place(TierPlace::kNone, *cached, &sources, "this TensorRT-LLM gives cached tokens without their tier");
    return sources;
  }
  sources.gpu = gpu.value_or(0);
  sources.host = host.value_or(0);
  sources.storage = disk.value_or(0);
  const double sum = sources.reused();
  if (sum > *cached && sum > 0) {  // counted per iteration, cached per finished request
    for (double* part : {&sources.gpu, &sources.host, &sources.storage}) *part *= *cached / sum;
  } else if (sum < *cached) {
    Place(TierPlace::kNone, *cached - sum, &sources, "cached at a tier that the engine does not name");
  }
  return sources;
}

Measured<TokenSources> DialectReader::ReadLlamaCpp() {
  const auto processed = Get("llamacpp:prompt_tokens_total");
  const auto cached = Get("llamacpp:prompt_tokens_cached_total");
  if (!processed) return Missing("llamacpp:prompt_tokens_total");
  if (!cached) return Missing("llamacpp:prompt_tokens_cached_total");
  TokenSources sources;
  sources.prompt = *processed + *cached;
  sources.computed = *processed;
  sources.gpu = *cached;
  return sources;
}

}  // namespace poolmark::stats
