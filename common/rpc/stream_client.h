// Reading server streams. ReadStream blocks the calling thread; Subscription needs none and suits a party
// with many streams. Both end for certain: by the server, by the stop token, by the destructor.
#pragma once
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace poolmark::rpc {

// Reads to the end; `on_message` returns false to leave early, which is OK. `stop` gives CANCELLED.
//   Status end = rpc::ReadStream<v1::WatchJobResponse>([&](grpc::ClientContext* c) { return stub->WatchJob(c,
//   request); },
//                                                      rpc::Deadline("ControllerService/WatchJob"), stop,
//                                                      on_message);
template <class Message>
Status ReadStream(
    const std::function<std::unique_ptr<grpc::ClientReader<Message>>(grpc::ClientContext*)>& open,
    std::chrono::nanoseconds deadline, std::stop_token stop,
    const std::function<bool(Message&)>& on_message) {
  grpc::ClientContext context;
  SetDeadline(&context, deadline);
  std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  auto reader = open(&context);
  Message message;
  bool left = false;
  while (reader->Read(&message)) {
    if (!left && !on_message(message)) {
      left = true;
      context.TryCancel();
    }
  }
  grpc::Status status = reader->Finish();
  if (left) return absl::OkStatus();
  return FromGrpc(status);
}

// A server stream whose messages come on gRPC's threads, one at a time and in order: `on_message` must not
// block. `on_end` comes last, exactly once. The destructor cancels and waits for it, so never destroy one in
// its own callbacks.
template <class Request, class Message>
class Subscription {
 public:
  // `start` is the stub's method: [&](auto* context, auto* request, auto* reactor) {
  // stub->async()->WatchProcesses(context, request, reactor); }
  using Start = std::function<void(grpc::ClientContext*, const Request*, grpc::ClientReadReactor<Message>*)>;
  Subscription(const Start& start, Request request, std::chrono::nanoseconds deadline,
               std::function<void(Message&)> on_message, std::function<void(const Status&)> on_end)
      : request_(std::move(request)),
        on_message_(std::move(on_message)),
        on_end_(std::move(on_end)),
        reactor_(this) {
    SetDeadline(&context_, deadline);
    start(&context_, &request_, &reactor_);
    reactor_.StartRead(&message_);
    reactor_.StartCall();
  }
  ~Subscription() {
    Cancel();
    (void)Wait();
  }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  void Cancel() { context_.TryCancel(); }
  // Blocks until the stream has ended and `on_end` returned.
  Status Wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return done_; });
    return status_;
  }
  bool done() const {
    std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  class Reactor final : public grpc::ClientReadReactor<Message> {
   public:
    explicit Reactor(Subscription* owner) : owner_(owner) {}
    void OnReadDone(bool ok) override {
      if (!ok) return;
      owner_->on_message_(owner_->message_);
      this->StartRead(&owner_->message_);
    }
    void OnDone(const grpc::Status& status) override { owner_->End(FromGrpc(status)); }

   private:
    Subscription* owner_;
  };

  void End(const Status& status) {
    if (on_end_) on_end_(status);
    std::lock_guard lock(mutex_);
    status_ = status;
    done_ = true;
    ended_.notify_all();  // under the lock: the waiter may destroy this
  }

  Request request_;
  std::function<void(Message&)> on_message_;
  std::function<void(const Status&)> on_end_;
  grpc::ClientContext context_;
  Message message_;
  mutable std::mutex mutex_;  // guards done_ and status_
  std::condition_variable ended_;
  bool done_ = false;
  Status status_;
  Reactor reactor_;
};

}  // namespace poolmark::rpc
