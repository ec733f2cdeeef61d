#include "tests/component/controller/fake_agent.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/zstd_file.h"
#include "common/load/record_codec.h"
#include "common/load/summary.h"
#include "tests/support/temp_dir.h"

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

constexpr char kWorkDir[] = "/var/lib/poolmark-fake";

// Twenty good requests of a load of two seconds.
std::string Records() {
  std::string text;
  for (int i = 0; i < 20; ++i) {
    load::RequestRecord record;
    record.session = static_cast<uint64_t>(i);
    record.session_id = absl::StrCat("s", i);
    record.started = record.sent = i * 100'000'000ll;
    record.first_byte = record.first_output = record.started + 20'000'000;
    record.first_answer_output = record.first_output;
    record.last_output = record.end = record.started + 90'000'000;
    record.events = {{record.started + 20'000'000, 1}, {record.started + 90'000'000, 1}};
    record.input_tokens = 100;
    record.cached_tokens = 40;
    record.output_tokens = 2;
    load::AppendRecord(record, &text);
  }
  TempDir dir;
  auto writer = ZstdWriter::Create(dir / "r.zst");
  (void)(*writer)->Write(text);
  (void)(*writer)->Finish();
  return *ReadFile(dir / "r.zst");
}

std::string BaseOf(const std::string& url) {
  const size_t path = url.find('/', url.find("//") + 2);
  return url.substr(0, path);
}

}  // namespace

FakePool::FakePool(const std::vector<std::string>& machines) {
  for (const std::string& machine : machines) agents_[machine] = std::make_shared<FakeAgent>(this, machine);
}
controller::LinkFactory FakePool::Factory() {
  return [this](const std::string& machine, const std::string&) -> controller::AgentLinkPtr {
    auto found = agents_.find(machine);
    return found == agents_.end() ? nullptr : found->second;
  };
}
void FakePool::SetHook(Hook hook) {
  std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}
Status FakePool::CallHook(const std::string& machine, const std::string& call, std::stop_token stop) {
  Hook hook;
  {
    std::lock_guard lock(mutex_);
    hook = hook_;
  }
  return hook ? hook(machine, call, std::move(stop)) : absl::OkStatus();
}

v1::Facts FakeAgent::Facts() {
  v1::Facts facts;
  facts.set_hostname("fake");
  facts.set_boot_id("boot-1");
  facts.set_cpus(2);
  facts.set_memory_bytes(8ull << 30);
  facts.set_memory_available_bytes(8ull << 30);
  facts.set_work_dir(kWorkDir);
  facts.set_work_dir_free_bytes(100ull << 30);
  for (const char* name : {"poolmark", "poolmark-sim", "redis-server"}) facts.add_executables(name);
  v1::Nic* nic = facts.add_nics();
  nic->set_name("lo");
  nic->set_address("127.0.0.1");
  nic->add_addresses("127.0.0.1");
  nic->set_mtu(65536);
  return facts;
}

void FakeAgent::SetFacts(v1::Facts facts) {
  std::lock_guard lock(mutex_);
  facts_ = std::move(facts);
}

Status FakeAgent::Enter(const char* call, const v1::LeaseId& lease, std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(pool_->CallHook(machine_, call, stop));
  if (stop.stop_requested()) return absl::CancelledError("stopped");
  std::lock_guard lock(mutex_);
  if (lease.epoch() <= ended_epoch_ && lease.job_id() == ended_job_ && std::string(call) != "Teardown") {
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition,
                          std::string(call) == "AcquireLease" ? "lease_ended" : "no_lease", machine_,
                          "its guard died", ""});
  }
  if (lease.epoch() < epoch_ || (lease.epoch() == epoch_ && !job_.empty() && lease.job_id() != job_)) {
    return ToStatus(
        Error{absl::StatusCode::kFailedPrecondition, "stale_epoch", machine_, "a lower epoch", ""});
  }
  return absl::OkStatus();
}

void FakeAgent::Say(v1::WatchProcessesResponse event) {
  event.set_sequence(events_.size() + 1);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

Result<v1::AcquireLeaseResponse> FakeAgent::AcquireLease(const v1::AcquireLeaseRequest& request,
                                                         std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("AcquireLease", request.lease(), stop));
  std::lock_guard lock(mutex_);
  if (!job_.empty() && job_ != request.lease().job_id()) {
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "leased", machine_,
                          absl::StrCat("job ", job_, " holds it"), ""});
  }
  epoch_ = request.lease().epoch();
  job_ = request.lease().job_id();
  v1::AcquireLeaseResponse response;
  response.set_work_dir(absl::StrCat(kWorkDir, "/", job_));
  return response;
}

Result<v1::GetFactsResponse> FakeAgent::GetFacts(const v1::GetFactsRequest&, std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(pool_->CallHook(machine_, "GetFacts", stop));
  v1::GetFactsResponse response;
  std::lock_guard lock(mutex_);
  *response.mutable_facts() = facts_;
  return response;
}

Status FakeAgent::RunChecks(const v1::RunChecksRequest& request, std::stop_token stop,
                            const controller::OnMessage<v1::RunChecksResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("RunChecks", request.lease(), stop));
  for (const char* id : {"disk_space", "ports_free", "public_ports"}) {
    const auto& only = request.only();
    if (!only.empty() && std::find(only.begin(), only.end(), id) == only.end()) continue;
    v1::RunChecksResponse response;
    response.mutable_result()->set_id(id);
    response.mutable_result()->set_outcome(pool_->failing_checks.contains(id) ? v1::OUTCOME_FAIL
                                                                              : v1::OUTCOME_PASS);
    response.mutable_result()->set_expected("room");
    response.mutable_result()->set_observed(pool_->failing_checks.contains(id) ? "none" : "enough");
    if (!on_message(response)) return absl::OkStatus();
  }
  // Of one network only, as preflight asks for each RDMA card: which, is in what it says.
  if (request.only_size() == 1 && request.only(0) == "mtu") {
    const std::string address = request.plan().net_addresses(0);
    v1::RunChecksResponse response;
    v1::CheckResult& result = *response.mutable_result();
    result.set_id("mtu");
    const bool fails = pool_->failing_checks.contains("mtu " + address);
    result.set_outcome(fails ? v1::OUTCOME_FAIL : v1::OUTCOME_PASS);
    result.set_expected("one MTU");
    result.set_observed(absl::StrCat("device of ", address, fails ? ", not carried to " : ", carried to ",
                                     absl::StrJoin(request.plan().peers(), ", ")));
    if (!on_message(response)) return absl::OkStatus();
  }
  if (const auto fabric = pool_->fabrics.find(machine_);
      fabric != pool_->fabrics.end() && request.only().empty()) {
    v1::RunChecksResponse response;
    response.mutable_result()->set_id("nvlink");
    response.mutable_result()->set_outcome(v1::OUTCOME_PASS);
    response.mutable_result()->set_observed("4 GPUs in cluster/clique " + fabric->second +
                                            ", IMEX domain up");
    if (!on_message(response)) return absl::OkStatus();
  }
  v1::RunChecksResponse last;
  last.set_last(true);
  (void)on_message(last);
  return absl::OkStatus();
}

Result<v1::MeasureLineResponse> FakeAgent::MeasureLine(const v1::MeasureLineRequest& request,
                                                       std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("MeasureLine", request.lease(), stop));
  v1::MeasureLineResponse response;
  response.mutable_tool()->set_name("iperf3");
  const bool tcp = request.kind() == v1::LINE_KIND_IPERF3;
  if (request.server() || request.stop_server()) {
    std::lock_guard lock(pool_->lines_mutex);
    std::set<uint32_t>& ports = pool_->line_servers[machine_];
    if (request.stop_server()) {
      ports.erase(request.port());
    } else if (!ports.insert(request.port()).second) {
      response.set_failure("port is already held");
    }
    return response;
  }
  if (request.kind() == v1::LINE_KIND_IB_WRITE_LAT) {
    response.set_latency_p50_us(2);
    response.set_latency_p99_us(3);
    return response;
  }
  double rate = 1e9;
  if (tcp && pool_->line_bits > 0) {
    std::lock_guard lock(pool_->lines_mutex);
    size_t servers = 0;
    for (const auto& [name, ports] : pool_->line_servers) servers += ports.size();
    rate = std::min(pool_->server_bits, pool_->line_bits / static_cast<double>(servers));
    pool_->line_clients.push_back({request.port(), request.streams(), request.seconds()});
  }
  response.set_bits_per_second(rate);
  response.set_payload_bytes(1e9);
  (*response.mutable_sent_by_device())[tcp ? "net:eth0"
                                           : absl::StrCat("rdma:", request.rdma_device().substr(
                                                                       0, request.rdma_device().find(':')))] =
      1e9;
  return response;
}

Result<v1::StartProcessResponse> FakeAgent::StartProcess(const v1::StartProcessRequest& request,
                                                         std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("StartProcess", request.lease(), stop));
  std::lock_guard lock(mutex_);
  const v1::ProcessSpec& spec = request.spec();
  v1::ProcessStatus& status = processes_[spec.id()];
  v1::StartProcessResponse response;
  if (status.id().empty() || status.state() == v1::PROCESS_STATE_EXITED) {
    status.Clear();
    status.set_id(spec.id());
    status.set_pid(next_pid_++);
    absl::StrAppend(&logs_[spec.id()], spec.id(), " as pid ", status.pid(), "\nlast words of ", spec.id(),
                    "\n");
    status.set_state(v1::PROCESS_STATE_STARTING);
    if (spec.role() == "engine") ++pool_->launched;
    v1::WatchProcessesResponse event;
    *event.mutable_status() = status;
    Say(event);
    status.set_state(v1::PROCESS_STATE_READY);
    *event.mutable_status() = status;
    Say(event);
    if (spec.role() == "load") RunLoad(spec);
  }
  *response.mutable_status() = status;
  response.mutable_status()->set_state(v1::PROCESS_STATE_STARTING);
  return response;
}

void FakeAgent::RunLoad(const v1::ProcessSpec& spec) {
  const int64_t wall = RealClock().Wall().count();
  v1::WatchProcessesResponse line;
  line.set_progress_id(spec.id());
  line.set_progress_json(absl::StrCat(R"({"event":"start","started_wall_ns":)", wall, "}"));
  Say(line);
  line.set_progress_json(R"({"event":"progress","t":1.0,"phase":"load","in_flight":2})");
  Say(line);
  const std::string directory =
      spec.directories(0).path().substr(absl::StrCat(kWorkDir, "/", job_, "/").size());
  files_[directory + "/requests.jsonl.zst"] = Records();
  files_[directory + "/timeline.jsonl"] = "{}\n";
  files_[directory + "/load.json"] = absl::StrCat(
      R"({"schema_version":)", load::kLoadSchemaVersion, R"(,"started_wall_ns":)", wall,
      R"(,"window_ns":{"start":0,"end":2000000000,"load_end":2000000000,"total_end":2100000000},"interrupted":false,)",
      R"("client":{"ran_out_of_sessions_at_s":null,"limited":false},"notes":[]})");
  if (pool_->hold_load) return;
  v1::ProcessStatus& status = processes_[spec.id()];
  status.set_state(v1::PROCESS_STATE_EXITED);
  status.set_exit_code(0);
  v1::WatchProcessesResponse end;
  *end.mutable_status() = status;
  Say(end);
}

void FakeAgent::Die(const std::string& id, int exit_code) {
  std::lock_guard lock(mutex_);
  auto found = processes_.find(id);
  if (found == processes_.end()) return;
  found->second.set_state(v1::PROCESS_STATE_EXITED);
  found->second.set_exit_code(exit_code);
  v1::WatchProcessesResponse event;
  *event.mutable_status() = found->second;
  Say(event);
}

void FakeAgent::KillGuard() {
  std::lock_guard lock(mutex_);
  processes_.clear();
  ended_job_ = job_;
  ended_epoch_ = epoch_;
  job_.clear();
  ++guards_died_;
  changed_.notify_all();
}

std::vector<std::string> FakeAgent::Processes() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, status] : processes_) {
    if (status.state() != v1::PROCESS_STATE_EXITED) ids.push_back(id);
  }
  return ids;
}

uint64_t FakeAgent::epoch() {
  std::lock_guard lock(mutex_);
  return epoch_;
}

Status FakeAgent::WatchProcesses(const v1::WatchProcessesRequest& request, std::stop_token stop,
                                 const controller::OnMessage<v1::WatchProcessesResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("WatchProcesses", request.lease(), stop));
  uint64_t next = request.after_sequence();
  while (!stop.stop_requested()) {
    v1::WatchProcessesResponse event;
    {
      std::unique_lock lock(mutex_);
      const int guards = guards_died_;
      if (!changed_.wait(lock, stop, [&] { return events_.size() > next || guards_died_ != guards; }))
        return absl::CancelledError("stopped");
      if (events_.size() <= next) return Unavailable(machine_, "the run's guard has ended");
      event = events_[next++];
    }
    if (!on_message(event)) return absl::OkStatus();
  }
  return absl::CancelledError("stopped");
}

Result<v1::StopProcessResponse> FakeAgent::StopProcess(const v1::StopProcessRequest& request,
                                                       std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("StopProcess", request.lease(), stop));
  Die(request.id(), 143);
  v1::StopProcessResponse response;
  std::lock_guard lock(mutex_);
  *response.mutable_status() = processes_[request.id()];
  return response;
}

Status FakeAgent::StreamLogs(const v1::StreamLogsRequest& request, std::stop_token stop,
                             const controller::OnMessage<v1::StreamLogsResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("StreamLogs", request.lease(), stop));
  // In small pieces, so that a reader has to put them together. The log outlives its process and the lease.
  std::string text;
  {
    std::lock_guard lock(mutex_);
    text = logs_[request.id()];
  }
  uint64_t offset = request.offset();
  if (request.tail_bytes() > 0) offset = text.size() - std::min<uint64_t>(text.size(), request.tail_bytes());
  constexpr size_t kChunk = 7;
  for (; offset < text.size(); offset += kChunk) {
    v1::StreamLogsResponse response;
    response.set_offset(offset);
    response.set_data(text.substr(offset, kChunk));
    if (!on_message(response)) break;
  }
  return absl::OkStatus();
}

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

Status FakeAgent::Teardown(const v1::TeardownRequest& request, std::stop_token stop,
                           const controller::OnMessage<v1::TeardownResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("Teardown", request.lease(), stop));
  std::vector<std::string> ids;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, status] : processes_) ids.push_back(id);
    for (const std::string& id : ids) {
      v1::WatchProcessesResponse event;
      processes_[id].set_state(v1::PROCESS_STATE_EXITED);
      processes_[id].set_exit_code(0);
      *event.mutable_status() = processes_[id];
      Say(event);
    }
    processes_.clear();
    files_.clear();
    if (!request.keep_lease()) job_.clear();
  }
  for (const std::string& id : ids) {
    v1::TeardownResponse response;
    response.mutable_item()->set_kind("process");
    response.mutable_item()->set_name(id);
    response.mutable_item()->set_state(pool_->leave_leftovers ? v1::LEDGER_ITEM_STATE_LEFT
                                                              : v1::LEDGER_ITEM_STATE_GONE);
    response.mutable_item()->set_proof("seen gone");
    if (!on_message(response)) return absl::OkStatus();
  }
  v1::TeardownResponse last;
  last.set_last(true);
  last.set_clean(true);  // the controller must look at the items itself
  (void)on_message(last);
  return absl::OkStatus();
}

Status FakeAgent::FetchFile(const v1::FetchFileRequest& request, std::stop_token stop,
                            const controller::OnMessage<v1::FetchFileResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("FetchFile", request.lease(), stop));
  std::string content;
  {
    std::lock_guard lock(mutex_);
    auto found = files_.find(request.path());
    if (found == files_.end()) return NotFound(request.path(), "no such file");
    content = found->second;
  }
  v1::FetchFileResponse chunk;
  chunk.set_data(content.substr(request.offset()));
  if (!on_message(chunk)) return absl::OkStatus();
  v1::FetchFileResponse last;
  last.set_size(content.size());
  last.set_sha256(Sha256Hex(content));
  last.set_last(true);
  (void)on_message(last);
  return absl::OkStatus();
}

Result<v1::ListFilesResponse> FakeAgent::ListFiles(const v1::ListFilesRequest& request,
                                                   std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("ListFiles", request.lease(), stop));
  return v1::ListFilesResponse();
}

}  // namespace poolmark::test
