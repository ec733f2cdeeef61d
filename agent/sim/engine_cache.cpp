// How the engine's requests find, load, place and let go of KV blocks.
#include <algorithm>

#include "agent/sim/engine.h"
#include "common/base/log.h"

namespace poolmark::sim {

using model::BlockHash;
using model::Tier;

namespace {

size_t Index(Tier tier) {
  return static_cast<size_t>(tier);
}

}  // namespace

// Blocks that lay on disk when the engine started are its cache, too: a run that wants an empty one has to
// begin with an empty directory.
void Engine::RestoreDisk() {
  std::vector<model::Move> moves;
  for (BlockHash hash : storage_->found_on_disk()) tiers_.RestoreDisk(hash, &moves);
  Move(moves);
}

KvFormat Engine::BlockFormat() const {
  KvFormat format = options_.format;
  if (!stored_model_.empty()) format.model = stored_model_;
  return format;
}

// Decides from where each block comes: the front part that is on the GPU is pinned at once, what lies
// elsewhere is put on the job.
void Engine::FindBlocks(Sequence* sequence, LoadJob* job) {
  size_t usable = model::UsableBlocks(sequence->request.prompt.size(), options_.format.block_tokens);
  usable = std::min(usable, sequence->hashes.size());
  const auto& transfer = sequence->request.transfer;
  bool pulls = transfer && transfer->do_remote_prefill;
  if (blend_ != nullptr) return;
  size_t at = 0;
  while (at < usable && tiers_.gpu().Contains(sequence->hashes[at])) ++at;
  sequence->found = at;
  if (pulls) {
    job->transfer = *transfer;
    for (size_t i = at; i < sequence->prompt_hashes.size(); ++i) {
      job->indexes.push_back(i);
      job->hashes.push_back(sequence->prompt_hashes[i]);
    }
    return;
  }
  bool lower = tiers_.host().capacity() > 0 || tiers_.disk().capacity() > 0;
  if (!lower && store_ == nullptr) return;
  for (; at < usable; ++at) {
    Tier tier = tiers_.Locate(sequence->hashes[at]);
    if (tier == Tier::kNone && store_ == nullptr) break;
    job->hashes.push_back(sequence->hashes[at]);
    job->tiers.push_back(tier);
  }
}

// False: no room yet. Else the request holds GPU blocks for its whole life and its state says how it goes on.
bool Engine::Admit(Sequence* sequence, Nanoseconds now) {
  sequence->prompt_hashes = sequence->hashes;
  if (!sequence->tail.empty()) {
    BlockHash parent = sequence->hashes.empty() ? 0 : sequence->hashes.back();
    sequence->prompt_hashes.push_back(model::ChainHash(parent, sequence->tail, options_.format.hash_seed));
  }
  LoadJob job;
  FindBlocks(sequence, &job);
  size_t block = options_.format.block_tokens;
  size_t all =
      (sequence->request.prompt.size() + static_cast<size_t>(sequence->max_tokens) + block - 1) / block;
  for (size_t i = 0; i < sequence->found; ++i) {
    tiers_.gpu().Pin(sequence->hashes[i]);
    sequence->pinned.push_back(sequence->hashes[i]);
  }
  size_t anonymous = all - sequence->found;
  if (!tiers_.gpu().Reserve(anonymous, nullptr)) {
    ReleaseBlocks(sequence);
    sequence->found = 0;
    return false;
  }
  sequence->reserved = anonymous;
  sequence->admitted = now;
  counters_.queue_time.Observe(ToSeconds(now - sequence->arrived));
  sequence->cached[Index(Tier::kGpu)] = static_cast<int64_t>(sequence->found * block);
  if (blend_ != nullptr) {
    sequence->blend = blend_->Lookup(sequence->request.prompt, &counters_.blend);
    int64_t served = std::min(sequence->blend.total(), sequence->prompt_tokens() - 1);
    sequence->cached[Index(Tier::kHost)] = served;
  }
  if (!job.hashes.empty()) {
    job.sequence = sequence->number;
    job.format = BlockFormat();
    job.block_bytes = BlockBytes();
    sequence->state = Sequence::State::kLoading;
    loader_->Load(std::move(job));
    return true;
  }
  CountAdmission(sequence);
  return true;
}

void Engine::TakeLoaded(Nanoseconds now) {
  while (!loaded_.empty() && loaded_.begin()->first <= now) {
    LoadResult result = std::move(loaded_.begin()->second);
    loaded_.erase(loaded_.begin());
    auto found = loading_.find(result.sequence);
    if (found == loading_.end()) continue;
    Owned sequence = std::move(found->second);
    loading_.erase(found);
    Loaded(sequence.get(), std::move(result));
    running_.push_back(std::move(sequence));
  }
}

void Engine::Loaded(Sequence* sequence, LoadResult result) {
  counters_.host_read_bytes += result.host_bytes;
  counters_.disk_read_bytes += result.disk_bytes;
  counters_.remote_read_errors += result.store_errors;
  counters_.format_mismatches += result.format_mismatches;
  counters_.damaged_blocks += result.damaged;
  const auto& transfer = sequence->request.transfer;
  bool pulls = transfer && transfer->do_remote_prefill;
  auto block = static_cast<int64_t>(options_.format.block_tokens);
  // What another engine handed over has a counter of its own: no byte is in two.
  if (!pulls) counters_.remote_read_bytes += result.remote_bytes;
  if (pulls) {
    if (result.transfer_failed) {
      ++counters_.failed_transfers;
      result.blocks.clear();
    } else {
      counters_.transfer_seconds.Observe(ToSeconds(result.took));
      counters_.post_seconds.Observe(ToSeconds(result.took) / 10);
      counters_.transfer_bytes.Observe(static_cast<double>(result.remote_bytes));
      counters_.transfer_descriptors.Observe(static_cast<double>(result.blocks.size()));
      sequence->handed_over = true;
      sequence->cached[Index(Tier::kRemote)] =
          sequence->prompt_tokens() - sequence->cached[Index(Tier::kGpu)];
    }
  } else {
    if (result.lost) {
      ++counters_.lost_blocks;
      tiers_.Forget(result.lost->tier, result.lost->hash);
      if (result.lost->tier == Tier::kHost) storage_->DropHost(result.lost->hash);
      if (result.lost->tier == Tier::kDisk) storage_->DropDisk(result.lost->hash);
    }
    for (const LoadedBlock& loaded : result.blocks) sequence->cached[Index(loaded.tier)] += block;
    sequence->found += result.blocks.size();
  }
  for (LoadedBlock& loaded : result.blocks) {
    if (loaded.bytes != nullptr) fresh_bytes_[loaded.hash] = std::move(loaded.bytes);
  }
  // What was loaded is on the GPU now; last block first, so that heads are used more recently than tails.
  std::vector<model::Move> moves;
  size_t first = sequence->pinned.size();
  size_t end = std::min(pulls ? first + result.blocks.size() : sequence->found, sequence->hashes.size());
  for (size_t i = end; i-- > first;) {
    tiers_.gpu().Release(1);
    --sequence->reserved;
    tiers_.Place(sequence->hashes[i], &moves);
    tiers_.gpu().Pin(sequence->hashes[i]);
  }
  for (size_t i = first; i < end; ++i) sequence->pinned.push_back(sequence->hashes[i]);
  Move(moves);
  fresh_bytes_.clear();
  CountAdmission(sequence);
}

// The counters that move when a request is admitted, and how much is left to compute.
void Engine::CountAdmission(Sequence* sequence) {
  auto length = static_cast<uint64_t>(sequence->prompt_tokens());
  const auto& cached = sequence->cached;
  uint64_t external = static_cast<uint64_t>(sequence->cached_tokens() - cached[0]);
  bool pulls = sequence->request.transfer && sequence->request.transfer->do_remote_prefill;
  counters_.prefix_queries += length;
  counters_.prefix_hits += static_cast<uint64_t>(cached[0]);
  if (pulls || blend_ != nullptr || store_ != nullptr || tiers_.host().capacity() > 0 ||
      tiers_.disk().capacity() > 0) {
    counters_.external_queries += length;
    counters_.external_hits += external;
  }
  counters_.cached_by_source[kDevice] += static_cast<uint64_t>(cached[Index(Tier::kGpu)]);
  counters_.cached_by_source[kHostSource] += static_cast<uint64_t>(cached[Index(Tier::kHost)]);
  counters_.cached_by_source[kDiskSource] += static_cast<uint64_t>(cached[Index(Tier::kDisk)]);
  bool named = sequence->handed_over || options_.shared_source == "p2p";
  counters_.cached_by_source[named ? kP2p : kUnspecified] +=
      static_cast<uint64_t>(cached[Index(Tier::kRemote)]);
  sequence->computed = sequence->cached_tokens();
  sequence->state = Sequence::State::kPrefill;
}

// The whole prompt's KV is on the GPU: its blocks get their identity and are written through.
void Engine::PlacePrompt(Sequence* sequence) {
  std::vector<model::Move> moves;
  size_t first = sequence->pinned.size();
  for (size_t i = sequence->hashes.size(); i-- > 0;) {
    if (i >= first) {
      tiers_.gpu().Release(1);
      --sequence->reserved;
    }
    tiers_.Place(sequence->hashes[i], &moves);
    if (i >= first) {
      tiers_.gpu().Pin(sequence->hashes[i]);
      WriteShared(sequence->hashes[i]);
    }
  }
  for (size_t i = first; i < sequence->hashes.size(); ++i) sequence->pinned.push_back(sequence->hashes[i]);
  Move(moves);
}

// A token of output joins the tail; a full block of them becomes one that later prompts can reuse.
void Engine::PlaceOutput(Sequence* sequence, Token token) {
  size_t block = options_.format.block_tokens;
  if (sequence->tail.size() == block) {
    BlockHash parent = sequence->hashes.empty() ? 0 : sequence->hashes.back();
    BlockHash hash = model::ChainHash(parent, sequence->tail, options_.format.hash_seed);
    sequence->tail.clear();
    sequence->hashes.push_back(hash);
    if (sequence->reserved > 0) {
      tiers_.gpu().Release(1);
      --sequence->reserved;
      std::vector<model::Move> moves;
      tiers_.Place(hash, &moves);
      tiers_.gpu().Pin(hash);
      sequence->pinned.push_back(hash);
      Move(moves);
      WriteShared(hash);
    }
  }
  // The KV of a token exists once the next one has been computed from it, hence the check before.
  sequence->tail.push_back(token);
}

Bytes Engine::BytesOf(BlockHash hash) {
  auto found = fresh_bytes_.find(hash);
  if (found != fresh_bytes_.end()) return found->second;
  std::string bytes = EncodeBlock(BlockFormat(), hash, BlockBytes());
  if (faults_->Hits("corrupt-kv")) bytes.back() = static_cast<char>(bytes.back() ^ 0x55);
  return std::make_shared<const std::string>(std::move(bytes));
}

void Engine::Move(const std::vector<model::Move>& moves) {
  using Kind = model::Move::Kind;
  for (const model::Move& move : moves) {
    switch (move.kind) {
      case Kind::kWriteHost: {
        Bytes bytes = BytesOf(move.hash);
        counters_.host_write_bytes += bytes->size();
        storage_->PutHost(move.hash, std::move(bytes));
        break;
      }
      case Kind::kWriteDisk: {
        Bytes bytes = BytesOf(move.hash);
        counters_.disk_write_bytes += bytes->size();
        storage_->PutDisk(move.hash, std::move(bytes));
        break;
      }
      case Kind::kHostToDisk:
        counters_.disk_write_bytes += BlockBytes();
        storage_->HostToDisk(move.hash);
        break;
      case Kind::kDropHost:
        storage_->DropHost(move.hash);
        break;
      case Kind::kDropDisk:
        storage_->DropDisk(move.hash);
        break;
    }
  }
}

// Written by the storage's writer thread, in order with everything else that is queued there.
void Engine::WriteShared(BlockHash hash) {
  if (store_ == nullptr) return;
  storage_->Enqueue([this, hash, format = BlockFormat(), size = BlockBytes()] {
    if (faults_->Hits("store-error")) {
      ++store_write_errors_;
      return;
    }
    std::string bytes = EncodeBlock(format, hash, size);
    if (faults_->Hits("corrupt-kv")) bytes.back() = static_cast<char>(bytes.back() ^ 0x55);
    Status status = store_->Put(hash, bytes);
    if (status.ok()) {
      store_write_bytes_ += bytes.size();
    } else if (store_write_errors_++ == 0) {
      Log(LogLevel::kWarning, "store.put", {{"error", std::string(status.message())}});
    }
  });
}

void Engine::ReleaseBlocks(Sequence* sequence) {
  // Last block first: the head of a prompt is the last to be replaced.
  for (size_t i = sequence->pinned.size(); i-- > 0;) tiers_.gpu().Unpin(sequence->pinned[i]);
  sequence->pinned.clear();
  tiers_.gpu().Release(sequence->reserved);
  sequence->reserved = 0;
}

void Engine::ClearCaches(bool lower, bool external, std::function<void(ClearReport)> done) {
  ClearReport report;
  {
    std::lock_guard lock(mutex_);
    std::vector<model::Move> moves;
    tiers_.Clear(lower, &moves);
    if (blend_ != nullptr) blend_->Clear();
    Move(moves);
    report.blocks_in_use = tiers_.gpu().pinned() + tiers_.gpu().reserved();
  }
  storage_->Enqueue([this, external, report, done = std::move(done)]() mutable {
    if (external && store_ != nullptr) {
      auto gone = store_->Clear();
      if (gone.ok()) {
        report.store_keys = *gone;
      } else {
        report.error = std::string(gone.status().message());
      }
    }
    done(report);
  });
}

void Engine::Flush(std::function<void()> done) {
  storage_->Enqueue(std::move(done));
}

std::string Engine::MetricsPage() {
  std::lock_guard lock(mutex_);
  PageFacts facts;
  facts.model = options_.format.model;
  facts.role = options_.role == Role::kPrefill  ? "prefill"
               : options_.role == Role::kDecode ? "decode"
                                                : "both";
  facts.kv_dtype = options_.format.kv_dtype;
  facts.running = running_.size();
  facts.waiting = waiting_.size();
  facts.loading = loading_.size();
  facts.gpu_blocks = tiers_.gpu().capacity();
  facts.gpu_used = tiers_.gpu().pinned() + tiers_.gpu().reserved();
  facts.gpu_filled = tiers_.gpu().size();
  facts.host_blocks = tiers_.host().capacity();
  facts.host_filled = tiers_.host().size();
  facts.disk_blocks = tiers_.disk().capacity();
  facts.disk_filled = tiers_.disk().size();
  facts.block_tokens = options_.format.block_tokens;
  facts.kv_bytes_per_token = options_.kv_bytes_per_token;
  facts.pending_writes = storage_->pending();
  counters_.remote_write_bytes = store_write_bytes_;
  counters_.remote_write_errors = store_write_errors_;
  return RenderEnginePage(counters_, facts);
}

}  // namespace poolmark::sim
