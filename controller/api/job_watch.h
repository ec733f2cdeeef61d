// WatchJob for any number of watchers with one thread: stored events after a sequence number, then what
// comes, with progress ticks in between and a keep-alive every 15 s. A watcher that is slow catches up from
// the store; ticks it cannot take are left out. Thread-safe.
#pragma once
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "common/rpc/streams.h"
#include "controller/runner/environment.h"

namespace poolmark::controller {

class JobWatches {
 public:
  explicit JobWatches(const Environment& environment);
  ~JobWatches();

  // `request.job_id` is a full id. Ends after the terminal event, or after what there is (no_follow).
  void Add(const v1::WatchJobRequest& request, std::shared_ptr<rpc::Outbox<v1::WatchJobResponse>> outbox);

 private:
  struct Watcher {
    v1::WatchJobRequest request;
    std::shared_ptr<rpc::Outbox<v1::WatchJobResponse>> outbox;
    uint64_t last = 0;            // pump thread only
    Nanoseconds last_message{0};  // pump thread only
    bool dirty = true;            // guarded by mutex_
    EventHub::Subscription subscription;
  };
  void Pump(std::stop_token stop);
  // Sends what the store has and the outbox takes. False: the stream has ended.
  bool Serve(Watcher* watcher);

  const Environment& environment_;
  std::mutex mutex_;  // watchers_ (the list), dirty flags
  std::condition_variable_any changed_;
  std::list<std::shared_ptr<Watcher>> watchers_;
  std::jthread pump_;
};

}  // namespace poolmark::controller
