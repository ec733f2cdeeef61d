#include "common/model/router_policy.h"

#include <algorithm>
#include <deque>

#include "common/model/lru_blocks.h"

namespace poolmark::model {
namespace {

// The idlest healthy worker; the first one at or after `from` among equals.
size_t LeastLoaded(std::span<const WorkerState> workers, size_t from) {
  size_t best = RouterPolicy::kNobody;
  for (size_t i = 0; i < workers.size(); ++i) {
    size_t at = (from + i) % workers.size();
    if (!workers[at].healthy) continue;
    if (best == RouterPolicy::kNobody || workers[at].active_requests < workers[best].active_requests)
      best = at;
  }
  return best;
}

class RoundRobin : public RouterPolicy {
 public:
  std::string_view name() const override { return "round_robin"; }
  size_t Choose(const RouteRequest&, std::span<const WorkerState> workers) override {
    for (size_t i = 0; i < workers.size(); ++i) {
      size_t at = next_++ % workers.size();
      if (workers[at].healthy) return at;
    }
    return kNobody;
  }

 private:
  size_t next_ = 0;
};

class LeastLoadedPolicy : public RouterPolicy {
 public:
  std::string_view name() const override { return "least_loaded"; }
  size_t Choose(const RouteRequest&, std::span<const WorkerState> workers) override {
    return LeastLoaded(workers, next_++);
  }

 private:
  size_t next_ = 0;
};

class Sticky : public RouterPolicy {
 public:
  std::string_view name() const override { return "sticky"; }
  size_t Choose(const RouteRequest& request, std::span<const WorkerState> workers) override {
    BlockHash key = request.blocks.empty() ? 0 : request.blocks.front();
    if (!request.session.empty()) {
      std::vector<Token> bytes(request.session.begin(), request.session.end());
      key = ContentHash(bytes, 0);
    }
    size_t best = kNobody;
    BlockHash best_weight = 0;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (!workers[i].healthy) continue;
      Token number = static_cast<Token>(i);
      BlockHash weight = ChainHash(key, std::span(&number, 1), 0);
      if (best == kNobody || weight > best_weight) {
        best = i;
        best_weight = weight;
      }
    }
    return best;
  }
};

class CacheAware : public RouterPolicy {
 public:
  explicit CacheAware(size_t memory_blocks) : memory_blocks_(memory_blocks) {}
  std::string_view name() const override { return "cache_aware"; }

  size_t Choose(const RouteRequest& request, std::span<const WorkerState> workers) override {
    while (sent_.size() < workers.size()) sent_.emplace_back(memory_blocks_);
    size_t idlest = LeastLoaded(workers, next_++);
    if (idlest == kNobody) return kNobody;
    size_t best = kNobody;
    size_t longest = 0;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (!workers[i].healthy) continue;
      size_t match = 0;
      while (match < request.blocks.size() && sent_[i].Contains(request.blocks[match])) ++match;
      if (match > longest) {
        longest = match;
        best = i;
      }
    }
    size_t low = workers[idlest].active_requests;
    bool enough = longest > 0 && longest * 10 >= request.blocks.size();
    if (best == kNobody || !enough) {
      best = idlest;
    } else if (workers[best].active_requests > low + 32 && workers[best].active_requests * 2 > low * 3) {
      best = idlest;
    }
    for (size_t i = request.blocks.size(); i-- > 0;) sent_[best].Insert(request.blocks[i], nullptr);
    return best;
  }

 private:
  size_t memory_blocks_;
  std::deque<LruBlocks> sent_;  // per worker: what was sent to it
  size_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<RouterPolicy>> MakeRouterPolicy(std::string_view name, size_t memory_blocks) {
  if (name == "round_robin") return std::make_unique<RoundRobin>();
  if (name == "least_loaded") return std::make_unique<LeastLoadedPolicy>();
  if (name == "sticky" || name == "consistent_hash") return std::make_unique<Sticky>();
  if (name == "cache_aware") return std::make_unique<CacheAware>(memory_blocks);
  return InvalidInput("policy", "'" + std::string(name) + "' is no router policy",
                      "one of round_robin, least_loaded, cache_aware, sticky, consistent_hash");
}

}  // namespace poolmark::model
