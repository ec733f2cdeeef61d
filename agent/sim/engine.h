// The simulated engine: continuous batching with simulated GPU time over a real block cache. A step takes
// as long as the flags say the GPU would need for its prefill tokens and decodes; what is cached, where and
// whether its bytes are still good is real. Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "agent/sim/answers.h"
#include "agent/sim/loader.h"
#include "agent/sim/metrics.h"
#include "agent/sim/options.h"
#include "agent/sim/sequence.h"
#include "agent/sim/transfer.h"
#include "common/model/tiers.h"

namespace poolmark::sim {

class Engine {
 public:
  // `faults` is borrowed.
  static Result<std::unique_ptr<Engine>> Start(const EngineOptions& options, FaultBox* faults);
  ~Engine();

  void Submit(GenerateRequest request, std::shared_ptr<http::ResponseWriter> writer);
  std::string MetricsPage();
  size_t in_flight();

  struct ClearReport {
    size_t blocks_in_use = 0;
    uint64_t store_keys = 0;
    std::string error;
  };
  // Forgets the GPU's prefix cache; with `lower` host and disk tier too, with `external` the keys of the
  // shared store under this run's prefix. `done` is called when the bytes are gone, on any thread.
  void ClearCaches(bool lower, bool external, std::function<void(ClearReport)> done);
  // `done` is called when everything computed so far is written.
  void Flush(std::function<void()> done);

  // Faults of the whole engine.
  void ResetCounters();
  void ChangeFormat(const Fault& fault);
  void Hang();
  // Takes nothing new, waits for what runs; false when the limit passed first.
  bool Drain(Nanoseconds limit);

  int transfer_port() const { return transfer_ == nullptr ? 0 : transfer_->port(); }

 private:
  Engine(const EngineOptions& options, FaultBox* faults);
  using Owned = std::unique_ptr<Sequence>;

  // engine.cpp: the loop.
  void Run();
  void OnLoaded(LoadResult result);
  void DropAborted();
  Nanoseconds PlanStep();
  void ApplyStep();
  void Produce(Sequence* sequence, Nanoseconds now);
  void SendPending(Sequence* sequence, bool last);
  void Finish(Sequence* sequence, const std::string& reason, Nanoseconds now);
  bool UsesChangedKv(const Sequence& sequence) const;
  void PrepareOutput(Sequence* sequence);
  Usage UsageOf(const Sequence& sequence) const;

  // engine_cache.cpp: blocks.
  void RestoreDisk();
  KvFormat BlockFormat() const;
  void TakeLoaded(Nanoseconds now);
  bool Admit(Sequence* sequence, Nanoseconds now);
  void FindBlocks(Sequence* sequence, LoadJob* job);
  void Loaded(Sequence* sequence, LoadResult result);
  void CountAdmission(Sequence* sequence);
  void PlacePrompt(Sequence* sequence);
  void PlaceOutput(Sequence* sequence, Token token);
  void Move(const std::vector<model::Move>& moves);
  void WriteShared(model::BlockHash hash);
  void ReleaseBlocks(Sequence* sequence);
  Bytes BytesOf(model::BlockHash hash);
  uint64_t BlockBytes() const { return options_.kv_bytes_per_token * options_.format.block_tokens; }

  EngineOptions options_;
  FaultBox* faults_;
  std::unique_ptr<Answerer> answerer_;
  std::unique_ptr<SharedStore> store_;
  std::unique_ptr<TransferServer> transfer_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::condition_variable idle_;
  model::Tiers tiers_;
  std::unique_ptr<Blend> blend_;
  EngineCounters counters_;
  std::deque<Owned> waiting_;
  std::unordered_map<uint64_t, Owned> loading_;
  std::vector<Owned> running_;
  std::multimap<Nanoseconds, LoadResult> loaded_;            // by the time at which they count as done
  std::unordered_map<model::BlockHash, Bytes> fresh_bytes_;  // of the load being taken in
  std::array<Nanoseconds, 5> tier_busy_{};                   // until when each tier's bandwidth is taken
  std::string stored_model_;                                 // by a fault: another model's name in blocks
  uint64_t next_number_ = 1;
  bool stopping_ = false;
  bool draining_ = false;
  bool hung_ = false;

  DelayedWriter delayed_;
  std::unique_ptr<TierStorage> storage_;
  std::unique_ptr<Loader> loader_;
  std::atomic<uint64_t> store_write_errors_ = 0;
  std::atomic<uint64_t> store_write_bytes_ = 0;
  std::thread thread_;
};

}  // namespace poolmark::sim
