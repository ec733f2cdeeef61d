// The machinery behind streams.h: reactors that finish exactly once. Not for direct use.
//
// One rule keeps it right: whoever set `busy_` under the mutex is the only one to start an operation on the
// reactor, and after Finish nobody touches it again; gRPC deletes it through OnDone, which comes last.
#pragma once
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "common/rpc/identity.h"
#include "common/rpc/status.h"

namespace poolmark::rpc {

class StreamCore {
 public:
  virtual ~StreamCore() = default;
  // Finishes once; later calls change nothing.
  virtual void Finish(const grpc::Status& status) = 0;
  std::stop_token stop_token() const { return stop_.get_token(); }
  void RequestStop() { stop_.request_stop(); }
  // Cancels the call unless it has ended already.
  void Cancel();
  const Identity& caller() const { return caller_; }
  // Before Start.
  void Bind(grpc::CallbackServerContext* context, Identity caller, std::function<void()> on_done);

 protected:
  // From the reactor's OnDone: the context is gone afterwards.
  void Done();

 private:
  std::stop_source stop_;
  Identity caller_;
  std::mutex context_mutex_;  // guards context_; held while cancelling, never while handlers run
  grpc::CallbackServerContext* context_ = nullptr;
  std::function<void()> on_done_;
};

template <class Message>
class WriteCore final : public StreamCore, public std::enable_shared_from_this<WriteCore<Message>> {
 public:
  explicit WriteCore(size_t limit) : limit_(limit) {}

  void Start() { reactor_ = new Reactor(this->shared_from_this()); }
  grpc::ServerWriteReactor<Message>* reactor() { return reactor_; }

  enum class Pushed { kTaken, kFull, kClosed };
  Pushed Push(Message&& message, bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) room_.wait(lock, [this] { return ending_ || queue_.size() < limit_; });
    if (ending_) return Pushed::kClosed;
    if (queue_.size() >= limit_) return Pushed::kFull;
    queue_.push_back(std::move(message));
    Proceed(lock);
    return Pushed::kTaken;
  }

  void Finish(const grpc::Status& status) override {
    std::unique_lock lock(mutex_);
    if (!ending_) {
      ending_ = true;
      status_ = status;
      room_.notify_all();
    }
    Proceed(lock);
    if (lock.owns_lock()) lock.unlock();
    RequestStop();
  }

  bool ending() const {
    std::lock_guard lock(mutex_);
    return ending_;
  }
  size_t queued() const {
    std::lock_guard lock(mutex_);
    return queue_.size();
  }

 private:
  class Reactor final : public grpc::ServerWriteReactor<Message> {
   public:
    explicit Reactor(std::shared_ptr<WriteCore> core) : core_(std::move(core)) {}
    void OnWriteDone(bool ok) override { core_->WriteDone(ok); }
    void OnCancel() override { core_->Gone(); }
    void OnDone() override {
      core_->Done();
      delete this;
    }

   private:
    std::shared_ptr<WriteCore> core_;
  };

  void WriteDone(bool ok) {
    bool gone = !ok;
    std::unique_lock lock(mutex_);
    busy_ = false;
    if (gone) Abandon();
    room_.notify_all();
    Proceed(lock);
    if (lock.owns_lock()) lock.unlock();
    if (gone) RequestStop();
  }

  // The client has left.
  void Gone() {
    {
      std::unique_lock lock(mutex_);
      Abandon();
      room_.notify_all();
      Proceed(lock);
    }
    RequestStop();
  }

  void Abandon() {
    queue_.clear();
    if (ending_) return;
    ending_ = true;
    status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the caller has left");
  }

  // Starts the next operation, if any and if none is under way. Releases the lock before it does.
  void Proceed(std::unique_lock<std::mutex>& lock) {
    if (busy_ || finished_) return;
    if (!queue_.empty()) {
      busy_ = true;
      writing_ = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      reactor_->StartWrite(&writing_);
    } else if (ending_) {
      finished_ = true;
      grpc::Status status = status_;
      lock.unlock();
      reactor_->Finish(status);
    }
  }

  const size_t limit_;
  Reactor* reactor_ = nullptr;  // valid until finished_
  mutable std::mutex mutex_;    // guards what follows
  std::condition_variable room_;
  std::deque<Message> queue_;
  Message writing_;  // owned by gRPC while busy_
  bool busy_ = false;
  bool ending_ = false;  // takes no more messages; those queued are still sent
  bool finished_ = false;
  grpc::Status status_;
};

// A handle on a stream of messages to one client. Thread-safe. When the last handle goes without Finish, the
// stream ends with INTERNAL.
template <class Message>
class Outbox {
 public:
  using Pushed = typename WriteCore<Message>::Pushed;
  explicit Outbox(std::shared_ptr<WriteCore<Message>> core)
      : core_(std::move(core)), reactor_(core_->reactor()) {}
  ~Outbox() { core_->Finish(grpc::Status(grpc::StatusCode::INTERNAL, "the stream ended without a status")); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // What the handler returns to gRPC, once.
  grpc::ServerWriteReactor<Message>* reactor() { return reactor_; }
  // Never blocks. kFull: the client is slow, drop with a gap or end the stream; kClosed: it has gone.
  Pushed TryPush(Message message) { return core_->Push(std::move(message), false); }
  // Blocks while the queue is full; false when the client has gone or the server ends.
  bool Write(Message message) { return core_->Push(std::move(message), true) == Pushed::kTaken; }
  // Sends what is queued, then the status. Once.
  void Finish(const Status& status) { core_->Finish(ToGrpc(status)); }
  bool closed() const { return core_->ending(); }
  size_t queued() const { return core_->queued(); }
  // Fires when the stream ends, whoever ended it. For std::condition_variable_any and std::stop_callback.
  std::stop_token stop_token() const { return core_->stop_token(); }
  const Identity& caller() const { return core_->caller(); }

 private:
  std::shared_ptr<WriteCore<Message>> core_;
  grpc::ServerWriteReactor<Message>* reactor_;
};

template <class Message>
class ReadCore final : public StreamCore, public std::enable_shared_from_this<ReadCore<Message>> {
 public:
  explicit ReadCore(size_t limit) : limit_(limit) {}

  void Start() {
    reactor_ = new Reactor(this->shared_from_this());
    std::unique_lock lock(mutex_);
    Proceed(lock);
  }
  grpc::ServerReadReactor<Message>* reactor() { return reactor_; }

  // False at the end of the stream, and when the call ends.
  bool Read(Message* message) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return ending_ || !queue_.empty() || half_closed_; });
    if (ending_ || queue_.empty()) return false;
    *message = std::move(queue_.front());
    queue_.pop_front();
    Proceed(lock);
    return true;
  }

  void Finish(const grpc::Status& status) override {
    std::unique_lock lock(mutex_);
    if (ending_) return;
    ending_ = true;
    arrived_.notify_all();
    lock.unlock();
    RequestStop();
    reactor_->Finish(status);  // a read under way is allowed: it completes without a message
  }

 private:
  class Reactor final : public grpc::ServerReadReactor<Message> {
   public:
    explicit Reactor(std::shared_ptr<ReadCore> core) : core_(std::move(core)) {}
    void OnReadDone(bool ok) override { core_->ReadDone(ok); }
    void OnCancel() override { core_->Gone(); }
    void OnDone() override {
      core_->Done();
      delete this;
    }

   private:
    std::shared_ptr<ReadCore> core_;
  };

  void ReadDone(bool ok) {
    std::unique_lock lock(mutex_);
    busy_ = false;
    if (ok && !ending_) {
      queue_.push_back(std::move(reading_));
      reading_ = Message();
      arrived_.notify_all();
      Proceed(lock);
      return;
    }
    half_closed_ = true;
    arrived_.notify_all();
  }

  void Gone() { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has left")); }

  // The lock stays held while the read is started: Finish must not come between. gRPC calls back on its own
  // threads.
  void Proceed(std::unique_lock<std::mutex>&) {
    if (busy_ || ending_ || half_closed_ || queue_.size() >= limit_) return;
    busy_ = true;
    reactor_->StartRead(&reading_);
  }

  const size_t limit_;
  Reactor* reactor_ = nullptr;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  std::deque<Message> queue_;
  Message reading_;
  bool busy_ = false;
  bool half_closed_ = false;
  bool ending_ = false;
};

// The messages that a client sends. Read on one thread.
template <class Message>
class Inbox {
 public:
  explicit Inbox(std::shared_ptr<ReadCore<Message>> core) : core_(std::move(core)) {}
  // Blocks; false at the end of the stream and when the client has gone. gRPC may report a client's death as
  // the end of its stream, so what was read is complete only when its own digest or count says so.
  bool Read(Message* message) { return core_->Read(message); }
  std::stop_token stop_token() const { return core_->stop_token(); }
  const Identity& caller() const { return core_->caller(); }

 private:
  std::shared_ptr<ReadCore<Message>> core_;
};

}  // namespace poolmark::rpc
