#include "tests/component/cli/fake_controller.h"

#include <utility>

#include "common/base/digest.h"
#include "common/rpc/contexts.h"
#include "common/rpc/token.h"

namespace poolmark::test {

grpc::Status FakeController::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                    v1::GetJobResponse* response) {
  std::lock_guard lock(mutex);
  if (job.id().rfind(request->job_id(), 0) != 0)
    return rpc::ToGrpc(NotFound("job " + request->job_id(), "there is no such job", "poolmark jobs"));
  *response->mutable_job() = job;
  response->set_summary_json("{\"points\":[]}");
  return grpc::Status::OK;
}

grpc::Status FakeController::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* response) {
  int page = request->page_token().empty() ? 0 : std::stoi(request->page_token());
  for (uint32_t i = 0; i < std::min(request->page_size(), 30u); ++i) {
    auto* entry = response->add_jobs();
    *entry = job;
    entry->set_id("j-" + std::to_string(page * 30 + static_cast<int>(i)));
  }
  if (page < 2) response->set_next_page_token(std::to_string(page + 1));
  return grpc::Status::OK;
}

grpc::Status FakeController::SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                                       v1::SubmitJobResponse* response) {
  std::lock_guard lock(mutex);
  if (!refusals.empty()) return rpc::ToGrpc(refusals);
  submitted.push_back(*request);
  response->set_job_id(job.id());
  response->add_notes("one run of one second");
  return grpc::Status::OK;
}

grpc::Status FakeController::ValidateJob(grpc::ServerContext*, const v1::ValidateJobRequest*,
                                         v1::ValidateJobResponse* response) {
  std::lock_guard lock(mutex);
  response->set_accepted(refusals.empty());
  for (const Error& error : refusals) {
    auto* item = response->add_refusals();
    item->set_code(error.code);
    item->set_where(error.where);
    item->set_message(error.message);
    item->set_hint(error.hint);
  }
  response->set_estimated_ns(90'000'000'000);
  response->set_explanation("engine-n0 on n0, port 8000\n");
  response->set_plan_json("{\"processes\":1}");
  return grpc::Status::OK;
}

grpc::Status FakeController::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                       v1::CancelJobResponse* response) {
  std::lock_guard lock(mutex);
  cancels.push_back(*request);
  *response->mutable_job() = job;
  return grpc::Status::OK;
}

grpc::Status FakeController::ListResultFiles(grpc::ServerContext*, const v1::ListResultFilesRequest*,
                                             v1::ListResultFilesResponse* response) {
  std::lock_guard lock(mutex);
  response->set_job_finished(finished);
  for (const auto& [path, content] : files) {
    auto* file = response->add_files();
    file->set_path(path);
    file->set_size(content.size());
    file->set_sha256(Sha256Hex(content));
    file->set_complete(true);
  }
  return grpc::Status::OK;
}

grpc::Status FakeController::ListMachines(grpc::ServerContext*, const v1::ListMachinesRequest* request,
                                          v1::ListMachinesResponse* response) {
  auto* machine = response->add_machines();
  if (request->page_token().empty()) {  // a page for itself
    machine->set_name("n0");
    machine->set_state(v1::MACHINE_STATE_READY);
    machine->set_clock_offset_ns(1'500'000);
    machine->set_gpus(8);
    machine->set_gpu_model("H200");
    if (request->with_facts()) {
      machine->mutable_facts()->set_cpus(192);
      machine->mutable_facts()->mutable_clock()->set_source("chrony");
      machine->mutable_facts()->mutable_clock()->set_synchronised(true);
      machine->mutable_facts()->mutable_clock()->set_bound_ns(250'000);
    }
    response->set_next_page_token("n0");
    return grpc::Status::OK;
  }
  machine->set_name("n1");
  machine->set_state(static_cast<v1::MachineState>(77));  // of a newer controller
  machine->set_reason("disk \x1b[2J full");
  machine = response->add_machines();
  machine->set_name("gone");
  machine->set_state(v1::MACHINE_STATE_REVOKED);
  return grpc::Status::OK;
}

grpc::Status FakeController::SetMachineState(grpc::ServerContext*, const v1::SetMachineStateRequest* request,
                                             v1::SetMachineStateResponse* response) {
  std::lock_guard lock(mutex);
  machine_changes.push_back(*request);
  response->mutable_machine()->set_name(request->machine());
  response->mutable_machine()->set_state(v1::MACHINE_STATE_DRAINED);
  return grpc::Status::OK;
}

grpc::Status FakeController::GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest*,
                                        v1::GetVersionResponse* response) {
  auto caller = rpc::CallerOf(*context);
  response->set_version("9.9.9");
  response->set_wall_ns(RealClock().Wall().count());
  response->set_cluster_id("lab");
  response->set_caller_name(caller->name);
  response->set_caller_role(rpc::RoleName(caller->role));
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* FakeController::WatchJob(grpc::CallbackServerContext* context,
                                                                         const v1::WatchJobRequest* request) {
  uint64_t after = request->after_sequence();
  const bool follow = !request->no_follow();
  return streams_->Produce<v1::WatchJobResponse>(
      context, [this, after, follow](rpc::Outbox<v1::WatchJobResponse>& out) mutable -> Status {
        std::unique_lock lock(mutex);
        int sent = 0;
        size_t next = 0;
        for (;;) {
          for (; next < events.size(); ++next) {
            if (events[next].sequence() != 0 && events[next].sequence() <= after) continue;
            v1::WatchJobResponse message;
            *message.mutable_event() = events[next];
            out.TryPush(message);
            if (break_watch_after > 0 && ++sent >= break_watch_after) {
              break_watch_after = 0;
              return Unavailable("", "broken by the test");
            }
          }
          if (ended || !follow) return absl::OkStatus();
          if (out.closed()) return absl::OkStatus();
          changed.wait_for(lock, std::chrono::milliseconds(20));
        }
      });
}

grpc::ServerWriteReactor<v1::StreamJobLogsResponse>* FakeController::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamJobLogsRequest*) {
  return streams_->Produce<v1::StreamJobLogsResponse>(
      context, [this](rpc::Outbox<v1::StreamJobLogsResponse>& out) -> Status {
        std::unique_lock lock(mutex);
        const std::string text = log;
        int left = std::exchange(break_logs_after, 0);
        if (left == 0) job.set_state(v1::JOB_STATE_SUCCEEDED);  // a stream that ends is of a job that ended
        lock.unlock();
        for (size_t i = 0; i < text.size(); i += 3) {  // lines cut anywhere
          if (left > 0 && --left == 0) return Unavailable("", "broken by the test");
          v1::StreamJobLogsResponse chunk;
          chunk.set_offset(i);
          chunk.set_machine("n0");
          chunk.set_process("engine-n0");
          chunk.set_data(text.substr(i, 3));
          out.Write(chunk);
        }
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::FetchResultsResponse>* FakeController::FetchResults(
    grpc::CallbackServerContext* context, const v1::FetchResultsRequest* request) {
  const std::string path = request->path();
  const uint64_t offset = request->offset();
  return streams_->Produce<v1::FetchResultsResponse>(
      context, [this, path, offset](rpc::Outbox<v1::FetchResultsResponse>& out) -> Status {
        std::unique_lock lock(mutex);
        std::string content = files[path];
        int chunks = break_fetch_after;
        break_fetch_after = 0;
        const bool flip = corrupt;
        lock.unlock();
        if (flip && !content.empty()) content[content.size() / 2] ^= 1;
        const std::string digest = Sha256Hex(content);
        int sent = 0;
        for (uint64_t at = offset;; at += 65536) {
          v1::FetchResultsResponse chunk;
          chunk.set_data(content.substr(std::min<uint64_t>(at, content.size()), 65536));
          chunk.set_last(at + 65536 >= content.size());
          if (chunk.last()) chunk.set_sha256(digest);
          if (!out.Write(chunk)) return absl::OkStatus();
          if (chunks > 0 && ++sent == chunks) return Unavailable("", "broken by the test");
          if (chunk.last()) return absl::OkStatus();
        }
      });
}

grpc::ServerReadReactor<v1::UploadInputRequest>* FakeController::UploadInput(
    grpc::CallbackServerContext* context, v1::UploadInputResponse* response) {
  return streams_->Consume<v1::UploadInputRequest, v1::UploadInputResponse>(
      context, response,
      [this](rpc::Inbox<v1::UploadInputRequest>& in, v1::UploadInputResponse* reply) -> Status {
        v1::UploadInputRequest message;
        if (!in.Read(&message)) return InvalidInput("upload", "it is empty");
        const std::string digest = message.sha256();
        {
          std::lock_guard lock(mutex);
          if (uploads.count(digest) != 0) {
            reply->set_already_there(true);
            return absl::OkStatus();
          }
        }
        std::string content = message.data();
        while (in.Read(&message)) content += message.data();
        if (Sha256Hex(content) != digest) return InvalidInput("upload", "the digest is another");
        std::lock_guard lock(mutex);
        uploads[digest] = content;
        upload_bytes_received += static_cast<int>(content.size());
        return absl::OkStatus();
      });
}

CliFixture::CliFixture() : service(&streams), tokens(cluster.dir() / "ca", RealClock()) {
  rpc::ServerOptions options;
  options.address = "127.0.0.1:0";
  options.identity_dir = cluster.Controller();
  options.streams = &streams;
  options.cluster = "lab";
  auto started = rpc::Server::Start(options, {&service});
  REQUIRE(started.ok());
  server = std::move(*started);
  enroll_service =
      std::make_unique<controller::EnrollServiceImpl>(cluster.ca(), tokens, server->address(), RealClock());
  options.clients_have_certificates = false;
  options.streams = nullptr;
  started = rpc::Server::Start(options, {enroll_service.get()});
  REQUIRE(started.ok());
  enroll = std::move(*started);
  service.job.set_id("j-7f3a");
  service.job.set_name("compare");
  service.job.set_state(v1::JOB_STATE_SUCCEEDED);
  service.job.set_teardown(v1::TEARDOWN_VERDICT_CLEAN);
}

CliFixture::~CliFixture() {
  enroll->Shutdown(std::chrono::seconds(1));
  server->Shutdown(std::chrono::seconds(1));
}

void CliFixture::LogIn(rpc::Role role) {
  auto store = rpc::ContextStore::Load(home / "config");
  REQUIRE(store.ok());
  auto text = cluster.ca().Issue(role, "me", std::chrono::hours(1));
  REQUIRE(text.ok());
  REQUIRE(store->Add("lab", server->address(), "lab", *text, RealClock()).ok());
}

std::map<std::string, std::string> CliFixture::Environment() const {
  return {{"POOLMARK_CONFIG_DIR", home / "config"}, {"NO_COLOR", "1"}};
}

std::string CliFixture::Token(const std::string& name, rpc::Role role) {
  auto secret = tokens.Create(name, role, std::chrono::hours(1));
  REQUIRE(secret.ok());
  return rpc::FormatToken({enroll->address(), cluster.ca().ca_sha256(), name, role, *secret});
}

void CliFixture::Event(uint64_t sequence, v1::JobState state, const std::string& message) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.set_kind("state");
  event.set_state(state);
  event.set_message(message);
  event.set_wall_ns(1'790'000'000'000'000'000);
  std::lock_guard lock(service.mutex);
  service.events.push_back(event);
  service.changed.notify_all();
}

}  // namespace poolmark::test
