#include "common/stats/kv_bytes.h"

namespace poolmark::stats {
namespace {

// Each counts other bytes: NIXL and Mooncake hand-overs on the fetching side, LMCache's and Mooncake's store,
// SGLang's and TensorRT-LLM's hand-over, the simulated engine's shared tier.
constexpr const char* kSeries[] = {
    "vllm:nixl_bytes_transferred_sum",
    "vllm:mooncake_bytes_transferred_sum",
    "vllm:mooncake_store_operation_bytes_total{operation=load_get,status=ok}",
    "vllm:mooncake_store_operation_bytes_total{operation=save_put,status=ok}",
    "lmcache:num_remote_read_bytes_total",
    "lmcache:num_remote_write_bytes_total",
    "sglang:kv_transfer_total_mb_sum",  // in bytes: the catalogue's factor is applied
    "trtllm_kv_transfer_bytes_sum",
    "poolmark_sim_tier_bytes_total{tier=remote}"};

}  // namespace

MovedBytes KvBytesOf(const EngineFacts& engine) {
  MovedBytes out;
  if (!engine.unreadable.empty() || engine.reset) {
    out.bytes = NotMeasured{engine.reset ? "a counter went backwards" : engine.unreadable};
    return out;
  }
  double sum = 0;
  for (const char* series : kSeries) {
    for (const Deltas* deltas : {&engine.deltas, &engine.cache}) {
      const auto at = deltas->find(series);
      if (at == deltas->end()) continue;
      out.series.push_back(series);
      sum += at->second;
    }
  }
  if (out.series.empty()) {
    out.bytes = NotMeasured{"the engine does not count the bytes of KV that it moves"};
  } else {
    out.bytes = sum;
  }
  return out;
}

}  // namespace poolmark::stats
