// What the fake agent's engines count and answer: sampling, probes, resets.
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/component/controller/fake_agent.h"

namespace poolmark::test {
namespace {

// What a fake engine counts: of ten prompt tokens six are computed and four come from its own cache.
constexpr struct {
  const char *name, *source;
  double share;
} kEngineSeries[] = {{"vllm:prompt_tokens_total", "", 10},
                     {"vllm:prompt_tokens_by_source_total", "local_compute", 6},
                     {"vllm:prompt_tokens_by_source_total", "local_cache_hit", 4},
                     {"vllm:prompt_tokens_by_source_total", "external_kv_transfer", 0}};

constexpr uint32_t kDiskSeries = 1000;  // beyond those of engines

std::string BaseOf(const std::string& url) {
  const size_t path = url.find('/', url.find("//") + 2);
  return url.substr(0, path);
}

}  // namespace

Result<v1::StartSamplingResponse> FakeAgent::StartSampling(const v1::StartSamplingRequest& request,
                                                           std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("StartSampling", request.lease(), stop));
  std::lock_guard lock(mutex_);
  sampling_ = sampler_ = true;
  ++samplings_;
  sampled_.clear();
  for (const v1::ScrapeTarget& target : request.targets()) {
    if (target.source().find("engine") != std::string::npos) sampled_.push_back(target.source());
  }
  v1::StartSamplingResponse response;
  response.add_tools()->set_name("poolmark-agent");
  return response;
}

Status FakeAgent::StreamSamples(const v1::StreamSamplesRequest& request, std::stop_token stop,
                                const controller::OnMessage<v1::StreamSamplesResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("StreamSamples", request.lease(), stop));
  uint64_t sequence = request.after_sequence();
  double value = 1;
  int sampling = 0;
  std::vector<std::string> engines;
  {
    std::lock_guard lock(mutex_);
    if (!sampler_)
      return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "not_sampling", "samples",
                            "nothing is being sampled for this job", "call StartSampling first"});
    sampling = samplings_;
    if (pool_->engine_counters) engines = sampled_;
  }
  // Another sampling numbers its series in another way.
  const uint32_t first_id = 1 + static_cast<uint32_t>(sampling % 2);
  while (!stop.stop_requested()) {
    v1::StreamSamplesResponse batch;
    batch.set_sequence(++sequence);
    if (sequence == 1) {
      for (const std::string& engine : engines) {
        for (const auto& [name, source, share] : kEngineSeries) {
          v1::SeriesDefinition* series = batch.add_series();
          series->set_id(first_id + static_cast<uint32_t>(batch.series_size()));
          series->set_source(engine);
          series->set_name(name);
          series->set_kind("counter");
          series->set_unit("tokens");
          if (*source == 0) continue;
          v1::Label* label = series->add_labels();
          label->set_key("source");
          label->set_value(source);
        }
      }
      v1::SeriesDefinition* series = batch.add_series();
      series->set_id(first_id);
      series->set_source("node");
      series->set_name("node_cpu_seconds_total");
      series->set_kind("counter");
      series->set_unit("s");
      series = batch.add_series();
      series->set_id(first_id + kDiskSeries);
      series->set_source("node");
      series->set_name("disk_available_bytes");
      v1::Label* label = series->add_labels();
      label->set_key("path");
      label->set_value("/var/lib/poolmark-work");
    }
    v1::SampleRound* round = batch.add_rounds();
    round->set_steady_ns(RealClock().Steady().count());
    round->set_wall_ns(RealClock().Wall().count());
    round->set_source("node");
    v1::SamplePoint* point = round->add_points();
    point->set_series(first_id);
    point->set_value(value++);
    point = round->add_points();
    point->set_series(first_id + kDiskSeries);
    point->set_value(pool_->disks_fill && sequence > 10 ? 4096 : 5e9);
    {
      std::unique_lock lock(mutex_);
      if (!sampler_ || samplings_ != sampling) return absl::UnavailableError("Socket closed");
      uint32_t next_id = first_id;
      for (const std::string& engine : engines) {
        tokens_[engine] += 10;
        v1::SampleRound* counters = batch.add_rounds();
        counters->set_steady_ns(batch.rounds(0).steady_ns());
        counters->set_wall_ns(batch.rounds(0).wall_ns());
        counters->set_source(engine);
        for (const auto& [name, source, share] : kEngineSeries) {
          v1::SamplePoint* tokens = counters->add_points();
          tokens->set_series(++next_id);
          tokens->set_value(tokens_[engine] * share / 10);
        }
      }
      batch.set_end(!sampling_);
      if (sampling_ && sequence > 1)
        changed_.wait_for(lock, stop, std::chrono::milliseconds(50), [&] { return !sampling_; });
    }
    if (!on_message(batch) || batch.end()) return absl::OkStatus();
  }
  return absl::CancelledError("stopped");
}

void FakeAgent::RestartAgent() {
  std::lock_guard lock(mutex_);
  sampling_ = sampler_ = false;
  changed_.notify_all();
}

int FakeAgent::samplings() {
  std::lock_guard lock(mutex_);
  return samplings_;
}

Result<v1::StopSamplingResponse> FakeAgent::StopSampling(const v1::StopSamplingRequest& request,
                                                         std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("StopSampling", request.lease(), stop));
  std::lock_guard lock(mutex_);
  sampling_ = false;
  changed_.notify_all();
  return v1::StopSamplingResponse();
}

Result<v1::ProbeResponse> FakeAgent::Probe(const v1::ProbeRequest& request, std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("Probe", request.lease(), stop));
  const std::string base = BaseOf(request.url());
  const std::string path = request.url().substr(base.size());
  v1::ProbeResponse response;
  response.set_status(200);
  std::lock_guard lock(pool_->engines_mutex);
  if (path == "/v1/completions" && pool_->reset_seen && pool_->failing_answers > 0) {
    --pool_->failing_answers;
    response.set_status(500);
    response.set_body("no luck");
  } else if (path == "/v1/completions" || path == "/v1/chat/completions") {
    pool_->prompt_tokens[base] += 300;
    const bool chat = path == "/v1/chat/completions";
    const std::string output =
        chat ? R"({"choices":[{"delta":{"content":"hello"}}]})" : R"({"choices":[{"text":"hello"}]})";
    const std::string usage = R"("usage":{"prompt_tokens":300,"completion_tokens":8}})";
    if (request.body().find(R"("stream":true)") == std::string::npos) {
      response.set_body(R"({"choices":[{"text":"hello"}],)" + usage);
    } else if (pool_->streams_nothing && (chat || !pool_->only_chat)) {
      response.set_body("data: {\"choices\":[]," + usage + "\n\ndata: [DONE]\n\n");
    } else {
      response.set_body("data: " + output + "\n\ndata: {\"choices\":[]," + usage + "\n\ndata: [DONE]\n\n");
    }
  } else if (path == "/v1/models") {
    response.set_body(R"({"data":[{"id":"sim"}]})");
  } else if (path == "/version") {
    response.set_body(R"({"version":"1.0"})");
  } else if (path == "/metrics") {
    const double tokens = pool_->prompt_tokens[base];
    response.set_body(absl::StrCat("# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total ",
                                   tokens, "\n# TYPE vllm:prompt_tokens_by_source_total counter\n",
                                   "vllm:prompt_tokens_by_source_total{source=\"local_compute\"} ", tokens,
                                   "\n", pool_->simulated_series ? "poolmark_sim_kv_bytes 1\n" : ""));
  } else {
    response.set_status(404);
  }
  return response;
}

Result<v1::ResetCachesResponse> FakeAgent::ResetCaches(const v1::ResetCachesRequest& request,
                                                       std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("ResetCaches", request.lease(), stop));
  v1::ResetCachesResponse response;
  pool_->reset_seen = true;
  for (const v1::ResetStep& step : request.resets()) {
    v1::CheckResult* result = response.add_results();
    result->set_id("reset/" + step.process());
    result->set_outcome(v1::OUTCOME_PASS);
  }
  for (const v1::ResetStep& step : request.empties()) {
    v1::CheckResult* result = response.add_results();
    result->set_id("empty/" + step.process());
    result->set_outcome(v1::OUTCOME_PASS);
  }
  return response;
}

}  // namespace poolmark::test
