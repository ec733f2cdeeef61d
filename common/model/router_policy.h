// How a router picks a worker. Pure decisions over what the router knows; used by the simulated router
// and to predict what a policy would reuse. Not thread-safe.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/block_hash.h"

namespace poolmark::model {

struct WorkerState {
  bool healthy = true;
  size_t active_requests = 0;
};

struct RouteRequest {
  std::span<const BlockHash> blocks;  // chained hashes of the prompt, in any one unit
  std::string_view session;           // key of the session, or ""
};

class RouterPolicy {
 public:
  static constexpr size_t kNobody = static_cast<size_t>(-1);
  virtual ~RouterPolicy() = default;
  virtual std::string_view name() const = 0;
  // The index of a healthy worker, or kNobody.
  virtual size_t Choose(const RouteRequest& request, std::span<const WorkerState> workers) = 0;
};

// round_robin, least_loaded, cache_aware, sticky (also vllm-router's consistent_hash); an unknown name is an
// error that lists them.
//  - cache_aware: the worker that was sent the longest part of this prompt, if that is at least a tenth of
//    it and the worker has at most 32 requests and 1.5 times the load more than the idlest; else the least
//    loaded. What workers hold is estimated from what was sent (`memory_blocks` each), as vllm-router and
//    sglang-router do it.
//  - sticky: rendezvous hashing of the session key, so that a worker that leaves moves only its sessions.
Result<std::unique_ptr<RouterPolicy>> MakeRouterPolicy(std::string_view name, size_t memory_blocks = 1 << 16);

}  // namespace poolmark::model
