#include "agent/api/registration.h"

#include <sys/stat.h>

#include <condition_variable>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/guard/proc.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/rpc/channel.h"

namespace poolmark::agent {

Registration::Registration(Options options, Connect connect, Runs* runs)
    : options_(std::move(options)), connect_(std::move(connect)), runs_(runs) {
  thread_ = std::jthread([this](std::stop_token stop) { Loop(stop); });
}

Registration::~Registration() = default;

bool Registration::IsRevoked(const rpc::Identity& identity) const {
  std::lock_guard lock(mutex_);
  return revoked_.count(identity.serial) != 0;
}

Nanoseconds Registration::last_answer_wall() const {
  std::lock_guard lock(mutex_);
  return last_answer_wall_;
}

bool Registration::Pause(std::stop_token stop, Nanoseconds duration) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, duration, [] { return false; });
  return !stop.stop_requested();
}

void Registration::AddHeld(google::protobuf::RepeatedPtrField<v1::HeldJob>* list) {
  for (const HeldRun& run : runs_->Held()) {
    v1::HeldJob* held = list->Add();
    held->set_job_id(run.info.job);
    held->set_epoch(run.epoch);
    held->set_guard_alive(run.guard_alive);
    held->set_open_items(run.open_items);
    held->set_state(run.state);
    held->set_clean(run.clean);
  }
}

Status Registration::Connected() {
  if (stub_ != nullptr) return absl::OkStatus();
  POOLMARK_ASSIGN_OR_RETURN(auto channel, connect_());
  stub_ = v1::AgentRegistryService::NewStub(channel);
  return absl::OkStatus();
}

bool Registration::PermitsOther() {
  struct stat facts {};
  std::string stamp;
  if (stat(options_.allow_file.c_str(), &facts) == 0)
    stamp =
        absl::StrCat(facts.st_ino, " ", facts.st_size, " ", facts.st_mtim.tv_sec, ".", facts.st_mtim.tv_nsec);
  return std::exchange(allow_stamp_, stamp) != stamp;
}

void Registration::AwaitFacts(std::stop_token stop) {
  constexpr Nanoseconds kLook = std::chrono::milliseconds(20);
  for (Nanoseconds waited{0}; waited < options_.await_facts && !options_.facts().facts; waited += kLook) {
    if (!Pause(stop, kLook)) return;
  }
}

Status Registration::Register(std::stop_token stop) {
  v1::RegisterRequest request;
  request.set_machine(options_.machine);
  request.set_address(options_.advertise);
  request.set_boot_id(guard::BootId());
  request.set_agent_version(Version());
  request.set_agent_id(runs_->agent_id());
  request.add_api_versions("v1");
  FactsNow now = options_.facts();
  if (now.facts) *request.mutable_facts() = *std::move(now.facts);
  AddHeld(request.mutable_held());
  request.set_highest_epoch(runs_->highest_epoch());
  POOLMARK_ASSIGN_OR_RETURN(auto reply, rpc::Call(*stub_, &v1::AgentRegistryService::Stub::Register, request,
                                                  rpc::Deadline("AgentRegistryService/Register"), stop));
  controller_epoch_ = reply.controller_epoch();
  if (reply.heartbeat_interval_ns() > 0) interval_ = Nanoseconds(reply.heartbeat_interval_ns());
  previous_sent_wall_ = previous_reply_wall_ = 0;
  register_again_ = false;
  facts_due_ = !now.fresh;
  Log(LogLevel::kInfo, "registered", {{"machine", options_.machine}, {"cluster", reply.cluster_id()}});
  for (const std::string& job : reply.tear_down())
    runs_->TearDownAbandoned(job, "no controller owns the job any more");
  return absl::OkStatus();
}

Status Registration::Beat(std::stop_token stop) {
  v1::HeartbeatRequest request;
  request.set_machine(options_.machine);
  request.set_boot_id(guard::BootId());
  request.set_controller_epoch(controller_epoch_);
  request.set_agent_id(runs_->agent_id());
  auto run = runs_->Current();
  if (run != nullptr) {
    request.mutable_lease()->set_job_id(run->info().job);
    request.mutable_lease()->set_epoch(run->epoch());
  }
  AddHeld(request.mutable_held());
  request.set_highest_epoch(runs_->highest_epoch());
  request.set_previous_sent_wall_ns(previous_sent_wall_);
  request.set_previous_reply_wall_ns(previous_reply_wall_);
  Nanoseconds sent_boot = RealClock().Boot();
  int64_t sent_wall = RealClock().Wall().count();
  request.set_sent_boot_ns(sent_boot.count());
  request.set_sent_wall_ns(sent_wall);
  auto reply = rpc::Call(*stub_, &v1::AgentRegistryService::Stub::Heartbeat, request,
                         rpc::Deadline("AgentRegistryService/Heartbeat"), stop);
  int64_t reply_wall = RealClock().Wall().count();
  if (!reply.ok()) {
    previous_sent_wall_ = previous_reply_wall_ = 0;
    return reply.status();
  }
  previous_sent_wall_ = sent_wall;
  previous_reply_wall_ = reply_wall;
  if (reply->lease_ttl_ns() > 0 && run != nullptr) {
    runs_->Renew(run->info().job, run->epoch(), sent_boot, Nanoseconds(reply->lease_ttl_ns()));
  }
  if (reply->register_again()) register_again_ = true;
  if (reply->heartbeat_interval_ns() > 0) interval_ = Nanoseconds(reply->heartbeat_interval_ns());
  std::lock_guard lock(mutex_);
  revoked_ = {reply->revoked_serials().begin(), reply->revoked_serials().end()};
  last_answer_wall_ = Nanoseconds(reply_wall);
  return absl::OkStatus();
}

void Registration::Loop(std::stop_token stop) {
  std::mt19937_64 random(std::random_device{}());
  auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Nanoseconds pause = options_.first_pause;
  std::string last_error;
  AwaitFacts(stop);
  while (!stop.stop_requested()) {
    if (PermitsOther() || (facts_due_ && options_.facts().fresh)) register_again_ = true;
    Status status = Connected();
    if (status.ok()) status = register_again_ ? Register(stop) : Beat(stop);
    Nanoseconds next = interval_;
    if (status.ok()) {
      if (!last_error.empty()) Log(LogLevel::kInfo, "controller.back", {});
      last_error.clear();
      pause = options_.first_pause;
      if (register_again_) continue;
      // Five in a hundred either way, so that agents started together drift apart.
      next = std::chrono::duration_cast<Nanoseconds>(interval_ * between(0.95, 1.05));
    } else if (!stop.stop_requested()) {
      if (absl::IsPermissionDenied(status)) stub_.reset();
      if (std::string(status.message()) != last_error) {
        Log(LogLevel::kWarning, "controller.unreachable", {{"error", std::string(status.message())}});
        last_error = std::string(status.message());
      }
      next = std::chrono::duration_cast<Nanoseconds>(pause * between(0.5, 1.5));
      pause = std::min(pause * 2, options_.longest_pause);
      // While a lease runs, every lost second counts.
      if (runs_->Current() != nullptr) next = std::min(next, interval_);
    }
    if (!Pause(stop, next)) return;
  }
}

}  // namespace poolmark::agent
