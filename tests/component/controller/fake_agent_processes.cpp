// The fake agent's processes: events, a load with its files, logs, tear-down.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/zstd_file.h"
#include "common/load/record_codec.h"
#include "common/load/summary.h"
#include "tests/component/controller/fake_agent.h"
#include "tests/support/temp_dir.h"

namespace poolmark::test {
namespace {

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

}  // namespace

void FakeAgent::Say(v1::WatchProcessesResponse event) {
  event.set_sequence(events_.size() + 1);
  events_.push_back(std::move(event));
  changed_.notify_all();
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

std::vector<std::string> FakeAgent::Processes() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, status] : processes_) {
    if (status.state() != v1::PROCESS_STATE_EXITED) ids.push_back(id);
  }
  return ids;
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

Status FakeAgent::Teardown(const v1::TeardownRequest& request, std::stop_token stop,
                           const controller::OnMessage<v1::TeardownResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("Teardown", request.lease(), stop));
  std::vector<std::string> ids;
  {
    std::lock_guard lock(mutex_);
    graces_.push_back(request.grace_ns());
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
  const bool knows = !pool_->Floods("Teardown nothing", machine_);
  if (!knows) ids.clear();
  const bool leaves = pool_->leave_leftovers || pool_->Floods("Teardown leaves", machine_);
  for (const std::string& id : ids) {
    v1::TeardownResponse response;
    response.mutable_item()->set_kind("process");
    response.mutable_item()->set_name(id);
    response.mutable_item()->set_state(leaves ? v1::LEDGER_ITEM_STATE_LEFT : v1::LEDGER_ITEM_STATE_GONE);
    response.mutable_item()->set_proof("seen gone");
    if (!on_message(response)) return absl::OkStatus();
  }
  if (knows) {
    v1::TeardownResponse response;
    response.mutable_item()->set_kind("directory");
    response.mutable_item()->set_name(absl::StrCat(kWorkDir, "/", request.lease().job_id()));
    response.mutable_item()->set_state(v1::LEDGER_ITEM_STATE_GONE);
    response.mutable_item()->set_proof("seen gone");
    if (!on_message(response)) return absl::OkStatus();
  }
  if (pool_->Floods("Teardown", machine_)) {
    v1::TeardownResponse response;
    response.mutable_item()->set_kind("file");
    response.mutable_item()->set_name(std::string(1000, 'x'));
    response.mutable_item()->set_state(v1::LEDGER_ITEM_STATE_GONE);
    while (on_message(response)) {
    }
    return absl::OkStatus();
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
  chunk.set_size(content.size());
  if (pool_->Floods("FetchFile huge", machine_)) chunk.set_size(uint64_t{1} << 60);
  chunk.set_data(content.substr(request.offset()));
  if (pool_->Floods("FetchFile", machine_)) {
    while (on_message(chunk)) {
    }
    return absl::OkStatus();
  }
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
