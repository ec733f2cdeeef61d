// Tells the controller that this machine is here: Register, then a heartbeat every two seconds or so, whose
// reply is the only renewal of a lease. Facts that take long are told when they are there. Reconnects by
// itself with growing pauses and jitter, so that a thousand agents do not come back at once. One thread.
// Thread-safe.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "agent/api/runs.h"
#include "common/rpc/identity.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark::agent {

class Registration {
 public:
  struct FactsNow {
    std::optional<v1::Facts> facts;  // absent: not read yet
    bool fresh = false;              // false: a reading runs
  };
  struct Options {
    std::string machine;
    std::string advertise;            // where the controller can dial us
    std::function<FactsNow()> facts;  // at once: the loop must not stand still while tools are asked
    Nanoseconds await_facts = std::chrono::seconds(2);  // at the start; then it registers without them
    std::string allow_file;  // a change of it is told at once: plans go by what the machine permits
    Nanoseconds first_pause = std::chrono::milliseconds(200);  // of the back-off
    Nanoseconds longest_pause = std::chrono::seconds(10);
  };
  // A new connection to the controller, with the certificate of now. A connection is known by the certificate
  // that it was made with for as long as it lives, so one whose calls are denied is given up.
  using Connect = std::function<Result<std::shared_ptr<grpc::Channel>>()>;
  // `runs` outlives this object.
  Registration(Options options, Connect connect, Runs* runs);
  ~Registration();

  // For Server: certificates that the controller withdrew.
  bool IsRevoked(const rpc::Identity& identity) const;
  // Wall time of the last heartbeat that was answered; 0: none yet.
  Nanoseconds last_answer_wall() const;

 private:
  void Loop(std::stop_token stop);
  Status Connected();
  Status Register(std::stop_token stop);
  Status Beat(std::stop_token stop);
  bool PermitsOther();  // since the last call
  void AwaitFacts(std::stop_token stop);
  void AddHeld(google::protobuf::RepeatedPtrField<v1::HeldJob>* list);
  bool Pause(std::stop_token stop, Nanoseconds duration);

  const Options options_;
  const Connect connect_;
  Runs* runs_;
  // Of the loop's thread:
  std::unique_ptr<v1::AgentRegistryService::Stub> stub_;  // null: to be made
  uint64_t controller_epoch_ = 0;
  Nanoseconds interval_ = std::chrono::seconds(2);
  int64_t previous_sent_wall_ = 0;
  int64_t previous_reply_wall_ = 0;
  bool register_again_ = true;
  bool facts_due_ = false;  // what was told was old, or nothing
  std::string allow_stamp_;
  mutable std::mutex mutex_;  // guards what follows
  std::set<std::string> revoked_;
  Nanoseconds last_answer_wall_{0};
  std::jthread thread_;
};

}  // namespace poolmark::agent
