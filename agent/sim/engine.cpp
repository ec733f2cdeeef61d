// The engine's life, its loop and its output; what concerns blocks is in engine_cache.cpp.
#include "agent/sim/engine.h"

#include <algorithm>

#include "common/base/digest.h"
#include "common/base/log.h"

namespace poolmark::sim {
namespace {

Nanoseconds Seconds(double seconds) {
  return Nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

model::TierSizes SizesOf(const EngineOptions& options) {
  uint64_t block_bytes = std::max<uint64_t>(options.kv_bytes_per_token * options.format.block_tokens, 1);
  model::TierSizes sizes;
  sizes.gpu_blocks = options.gpu_cache_tokens / options.format.block_tokens;
  sizes.host_blocks = options.host_cache_bytes / block_bytes;
  sizes.disk_blocks = options.disk_cache_bytes / block_bytes;
  return sizes;
}

}  // namespace

Engine::Engine(const EngineOptions& options, FaultBox* faults)
    : options_(options), faults_(faults), tiers_(SizesOf(options)) {
  counters_.has_transfer = options.role != Role::kBoth;
  if (options.blend_chunk > 0) {
    blend_ = std::make_unique<Blend>(options.blend_chunk, options.blend_capacity, options.blend_stale_share,
                                     options.seed);
  }
}

Result<std::unique_ptr<Engine>> Engine::Start(const EngineOptions& options, FaultBox* faults) {
  if (options.gpu_cache_tokens < options.format.block_tokens) {
    return InvalidInput("--gpu-cache-tokens", "smaller than one block of " +
                                                  std::to_string(options.format.block_tokens) + " tokens");
  }
  if (options.disk_cache_bytes > 0 && options.disk_directory.empty()) {
    return InvalidInput("--disk-cache", "no directory for the disk tier", "give --disk-dir");
  }
  std::unique_ptr<Engine> engine(new Engine(options, faults));
  POOLMARK_ASSIGN_OR_RETURN(engine->answerer_, Answerer::Make(options.answers));
  if (options.shared()) {
    POOLMARK_ASSIGN_OR_RETURN(engine->store_, MakeStore(options.store));
  }
  POOLMARK_ASSIGN_OR_RETURN(engine->storage_,
                            TierStorage::Open(options.disk_cache_bytes > 0 ? options.disk_directory : ""));
  engine->RestoreDisk();
  if (options.role == Role::kPrefill) {
    std::string host = options.transfer_host.empty() ? options.host : options.transfer_host;
    POOLMARK_ASSIGN_OR_RETURN(engine->transfer_, TransferServer::Start(host, options.transfer_port));
  }
  Engine* raw = engine.get();
  engine->loader_ = std::make_unique<Loader>(engine->storage_.get(), engine->store_.get(), faults,
                                             [raw](LoadResult result) { raw->OnLoaded(std::move(result)); });
  engine->thread_ = std::thread([raw] { raw->Run(); });
  return engine;
}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  loader_.reset();
  storage_.reset();
}

void Engine::Submit(GenerateRequest request, std::shared_ptr<http::ResponseWriter> writer) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = (request.chat ? "chatcmpl-" : "cmpl-") + RandomHex(8);
  ReplyHead head{request.chat, sequence->id, request.model.empty() ? options_.format.model : request.model,
                 RealClock().Wall().count() / 1'000'000'000};
  bool one_token = request.max_tokens == 1;
  sequence->reply = std::make_unique<ReplyStream>(std::move(writer), head, request,
                                                  faults_->ForRequest(one_token), &delayed_);
  auto refuse = [&](int status, std::string type, std::string message, std::string param) {
    sequence->reply->Refuse({status, std::move(type), std::move(message), std::move(param)});
  };
  sequence->max_tokens_given = request.max_tokens.has_value();
  sequence->max_tokens = request.max_tokens.value_or(options_.default_max_tokens);
  auto length = static_cast<int64_t>(request.prompt.size());

  std::lock_guard lock(mutex_);
  if (!request.model.empty() && request.model != options_.format.model) {
    return refuse(
        404, "NotFoundError",
        "The model `" + request.model + "` does not exist. Valid aliases: " + options_.format.model + ".",
        "model");
  }
  if (length + (request.max_tokens ? *request.max_tokens : 1) > options_.max_model_len) {
    return refuse(400, "BadRequestError",
                  "This model's maximum context length is " + std::to_string(options_.max_model_len) +
                      " tokens. However, your prompt contains " + std::to_string(length) +
                      " input tokens and asks for " + std::to_string(request.max_tokens.value_or(1)) +
                      " more.",
                  "input_tokens");
  }
  sequence->max_tokens = std::min(sequence->max_tokens, options_.max_model_len - length);
  size_t block = options_.format.block_tokens;
  size_t needed = (request.prompt.size() + static_cast<size_t>(sequence->max_tokens) + block - 1) / block;
  if (needed > tiers_.gpu().capacity()) {
    return refuse(400, "BadRequestError",
                  "the request needs " + std::to_string(needed) + " KV blocks, the cache has " +
                      std::to_string(tiers_.gpu().capacity()),
                  "input_tokens");
  }
  if (draining_) return refuse(503, "ServiceUnavailable", "the engine is shutting down", "");
  if (!sequence->reply->Arrived()) return;
  sequence->number = next_number_++;
  sequence->arrived = RealClock().Steady();
  sequence->hashes = model::HashBlocks(request.prompt, block, options_.format.hash_seed);
  sequence->tail.assign(request.prompt.begin() + static_cast<int64_t>(sequence->hashes.size() * block),
                        request.prompt.end());
  sequence->text_hash = model::ContentHash(request.prompt, 0);
  sequence->request = std::move(request);
  waiting_.push_back(std::move(sequence));
  wake_.notify_all();
}

size_t Engine::in_flight() {
  std::lock_guard lock(mutex_);
  return waiting_.size() + loading_.size() + running_.size();
}

void Engine::Hang() {
  std::lock_guard lock(mutex_);
  hung_ = true;
}

void Engine::ResetCounters() {
  std::lock_guard lock(mutex_);
  bool transfer = counters_.has_transfer;
  counters_ = EngineCounters();
  counters_.has_transfer = transfer;
  store_write_errors_ = 0;
  store_write_bytes_ = 0;
}

void Engine::ChangeFormat(const Fault& fault) {
  std::lock_guard lock(mutex_);
  KvFormat& format = options_.format;
  // The served name stays; only what is written and expected in blocks changes.
  stored_model_ = fault.Text("model", stored_model_);
  format.dtype = fault.Text("dtype", format.dtype);
  format.kv_dtype = fault.Text("kv_dtype", format.kv_dtype);
  format.layers = static_cast<uint32_t>(fault.Number("layers", format.layers));
  format.hash_seed = static_cast<uint64_t>(fault.Number("seed", static_cast<double>(format.hash_seed)));
}

bool Engine::Drain(Nanoseconds limit) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return idle_.wait_for(lock, limit,
                        [this] { return waiting_.empty() && loading_.empty() && running_.empty(); });
}

void Engine::OnLoaded(LoadResult result) {
  std::lock_guard lock(mutex_);
  // What the tiers would have needed: each has one bandwidth, shared by all loads.
  Nanoseconds now = RealClock().Steady();
  Nanoseconds start = now - result.took;
  Nanoseconds ready = now;
  std::array<size_t, 5> blocks{};
  for (const LoadedBlock& block : result.blocks) ++blocks[static_cast<size_t>(block.tier)];
  const double bandwidths[] = {0, options_.host_bandwidth, options_.disk_bandwidth,
                               options_.remote_bandwidth};
  for (size_t tier = 1; tier <= 3; ++tier) {
    if (blocks[tier] == 0) continue;
    double bytes = static_cast<double>(blocks[tier] * options_.format.block_tokens) *
                   static_cast<double>(options_.simulated_kv_bytes_per_token);
    Nanoseconds span = Seconds(bytes / bandwidths[tier]);
    if (tier == 3) span += options_.remote_latency;
    tier_busy_[tier] = std::max(tier_busy_[tier], start) + span;
    ready = std::max(ready, tier_busy_[tier]);
  }
  loaded_.emplace(ready, std::move(result));
  wake_.notify_all();
}

void Engine::Run() {
  std::unique_lock lock(mutex_);
  Nanoseconds step_end{0};
  while (!stopping_) {
    if (hung_) {
      wake_.wait(lock);
      continue;
    }
    Nanoseconds now = RealClock().Steady();
    DropAborted();
    TakeLoaded(now);
    while (!waiting_.empty() && running_.size() + loading_.size() < options_.max_num_seqs &&
           Admit(waiting_.front().get(), now)) {
      Owned sequence = std::move(waiting_.front());
      waiting_.pop_front();
      if (sequence->state == Sequence::State::kLoading) {
        loading_.emplace(sequence->number, std::move(sequence));
      } else {
        running_.push_back(std::move(sequence));
      }
    }
    if (transfer_ != nullptr) counters_.expired_transfers += transfer_->Expire(now);
    if (running_.empty()) {
      if (waiting_.empty() && loading_.empty()) idle_.notify_all();
      // At rest it only looks up now and then, for clients that have gone.
      Nanoseconds until = now + (waiting_.empty() && loading_.empty() ? std::chrono::seconds(5)
                                                                      : std::chrono::milliseconds(20));
      if (!loaded_.empty()) until = std::min(until, loaded_.begin()->first);
      if (until > now) wake_.wait_for(lock, until - now);
      continue;
    }
    Nanoseconds span = PlanStep();
    // Steps follow each other without the loop's own time in between.
    Nanoseconds start = now - step_end < std::chrono::milliseconds(2) ? step_end : now;
    step_end = start + span;
    while (!stopping_ && !hung_) {
      now = RealClock().Steady();
      if (now >= step_end) break;
      wake_.wait_for(lock, step_end - now);
    }
    if (stopping_ || hung_) continue;
    ApplyStep();
  }
}

void Engine::DropAborted() {
  auto drop = [this](Owned& sequence) {
    if (!sequence->reply->gone()) return false;
    ++counters_.finished[sequence->reply->broken() ? "error" : "abort"];
    ReleaseBlocks(sequence.get());
    return true;
  };
  std::erase_if(running_, drop);
  std::erase_if(waiting_, drop);
}

Nanoseconds Engine::PlanStep() {
  int64_t budget = options_.max_batched_tokens;
  size_t decodes = 0;
  for (const Owned& sequence : running_) {
    sequence->chunk = 0;
    if (sequence->state == Sequence::State::kDecode) {
      ++decodes;
      --budget;
    }
  }
  int64_t prefill = 0;
  for (const Owned& sequence : running_) {
    if (sequence->state != Sequence::State::kPrefill) continue;
    sequence->chunk = std::max<int64_t>(std::min(budget, sequence->prompt_tokens() - sequence->computed), 0);
    budget -= sequence->chunk;
    prefill += sequence->chunk;
    if (sequence->computed == sequence->prompt_tokens())
      ++decodes;  // handed over: its first step is a decode
  }
  counters_.iteration_tokens.Observe(static_cast<double>(prefill) + static_cast<double>(decodes));
  double seconds = static_cast<double>(prefill) / options_.prefill_tokens_per_second;
  if (decodes > 0) {
    seconds += ToSeconds(options_.decode_step) +
               static_cast<double>(decodes) * ToSeconds(options_.decode_per_sequence);
  }
  if (auto slow = faults_->Find("slow")) seconds *= slow->Number("factor", 3);
  return Seconds(seconds);
}

void Engine::ApplyStep() {
  Nanoseconds now = RealClock().Steady();
  for (Owned& owned : running_) {
    Sequence* sequence = owned.get();
    if (sequence->state == Sequence::State::kPrefill) {
      sequence->computed += sequence->chunk;
      if (sequence->computed < sequence->prompt_tokens()) continue;
      PlacePrompt(sequence);
      PrepareOutput(sequence);
      sequence->state = Sequence::State::kDecode;
      counters_.prefill_time.Observe(ToSeconds(now - sequence->admitted));
    }
    Produce(sequence, now);
  }
  std::erase_if(running_, [](const Owned& sequence) { return sequence->state == Sequence::State::kWaiting; });
}

bool Engine::UsesChangedKv(const Sequence& sequence) const {
  if (sequence.blend.non_prefix_tokens > 0) return true;
  return std::any_of(options_.lossy_tiers.begin(), options_.lossy_tiers.end(), [&](const std::string& name) {
    using model::Tier;
    const Tier tier = name == "host" ? Tier::kHost : name == "disk" ? Tier::kDisk : Tier::kRemote;
    return sequence.cached[static_cast<size_t>(tier)] > 0;
  });
}

void Engine::PrepareOutput(Sequence* sequence) {
  std::optional<Answer> answer = answerer_->For(sequence->request.text, UsesChangedKv(*sequence));
  if (!answer) return;
  sequence->script.emplace();
  Encode(answer->text, &*sequence->script);
  if (sequence->script->empty()) sequence->script->push_back(kEnd);
  sequence->script_cut = answer->cut;
}

void Engine::Produce(Sequence* sequence, Nanoseconds now) {
  int64_t reasoning = sequence->request.chat ? options_.reasoning_tokens : 0;
  int64_t index = sequence->produced;
  bool thinks = index < reasoning;
  Token token = 0;
  if (thinks || !sequence->script) {
    token = PlainWord(sequence->text_hash, index);
  } else {
    token = (*sequence->script)[static_cast<size_t>(index - reasoning)];
  }
  ++sequence->produced;
  ++counters_.generation_tokens;
  if (sequence->first_token == Nanoseconds(0)) {
    sequence->first_token = now;
    counters_.ttft.Observe(ToSeconds(now - sequence->arrived));
    counters_.prompt_tokens += static_cast<uint64_t>(sequence->prompt_tokens());
    counters_.local_hit_tokens += static_cast<uint64_t>(sequence->cached[0]);
    uint64_t external = static_cast<uint64_t>(sequence->cached_tokens() - sequence->cached[0]);
    counters_.external_tokens += external;
    counters_.computed_tokens += static_cast<uint64_t>(sequence->prompt_tokens() - sequence->cached_tokens());
    counters_.request_prompt_tokens.Observe(static_cast<double>(sequence->prompt_tokens()));
    counters_.kv_computed_tokens.Observe(
        static_cast<double>(sequence->prompt_tokens() - sequence->cached_tokens()));
  } else {
    counters_.inter_token.Observe(ToSeconds(now - sequence->last_token));
  }
  sequence->last_token = now;
  PlaceOutput(sequence, token);

  std::string field = thinks ? options_.reasoning_field : "content";
  if (field != sequence->pending_field) SendPending(sequence, true);
  sequence->pending_field = field;
  if (token != kEnd || !sequence->script) sequence->pending_text += Piece(token);
  ++sequence->pending_tokens;

  bool script_done =
      sequence->script && sequence->produced == reasoning + static_cast<int64_t>(sequence->script->size());
  bool limit = sequence->produced >= sequence->max_tokens;
  SendPending(sequence, script_done || limit);
  if (sequence->reply->gone()) {
    ++counters_.finished[sequence->reply->broken() ? "error" : "abort"];
    ReleaseBlocks(sequence);
    sequence->state = Sequence::State::kWaiting;  // leaves running_
  } else if (script_done) {
    Finish(sequence, sequence->script_cut ? "length" : "stop", now);
  } else if (limit) {
    Finish(sequence, sequence->max_tokens_given || sequence->script ? "length" : "stop", now);
  }
}

void Engine::SendPending(Sequence* sequence, bool last) {
  if (sequence->pending_tokens == 0 || (!last && sequence->pending_tokens < options_.tokens_per_event))
    return;
  sequence->reply->Text(sequence->pending_field, sequence->pending_text, sequence->pending_tokens,
                        UsageOf(*sequence));
  sequence->pending_text.clear();
  sequence->pending_tokens = 0;
}

Usage Engine::UsageOf(const Sequence& sequence) const {
  Usage usage;
  usage.prompt_tokens = sequence.prompt_tokens();
  usage.completion_tokens = sequence.produced;
  // As vLLM: KV handed over by a prefill engine is not reported as cached.
  usage.cached_tokens = sequence.handed_over ? sequence.cached[0] : sequence.cached_tokens();
  int64_t block = options_.format.block_tokens;
  usage.created_cache_tokens = (sequence.prompt_tokens() - sequence.cached_tokens()) / block * block;
  return usage;
}

void Engine::Finish(Sequence* sequence, const std::string& reason, Nanoseconds now) {
  ++counters_.finished[reason];
  counters_.e2e.Observe(ToSeconds(now - sequence->arrived));
  counters_.inference_time.Observe(ToSeconds(now - sequence->admitted));
  counters_.decode_time.Observe(ToSeconds(now - sequence->first_token));
  counters_.request_generation_tokens.Observe(static_cast<double>(sequence->produced));
  if (sequence->produced > 1) {
    counters_.time_per_output_token.Observe(ToSeconds(now - sequence->first_token) /
                                            static_cast<double>(sequence->produced - 1));
  }
  const auto& asked = sequence->request.transfer;
  TransferParams handed;
  bool hands_over = transfer_ != nullptr && asked && asked->do_remote_decode;
  size_t blocks = 0;
  if (hands_over) {
    HeldBlocks held;
    held.format = BlockFormat();
    held.hashes = sequence->prompt_hashes;
    held.block_bytes = BlockBytes();
    held.until = now + options_.transfer_lease;
    blocks = held.hashes.size();
    handed.engine_id = transfer_->engine_id();
    handed.request_id = sequence->id + "-" + RandomHex(4);
    handed.host = options_.transfer_host.empty() ? options_.host : options_.transfer_host;
    handed.port = transfer_->port();
    handed.num_tokens = sequence->prompt_tokens();
    transfer_->Hold(handed.request_id, std::move(held));
  }
  ReleaseBlocks(sequence);
  sequence->reply->Finish(reason, UsageOf(*sequence), hands_over ? &handed : nullptr, blocks);
  sequence->state = Sequence::State::kWaiting;  // leaves running_
}

}  // namespace poolmark::sim
