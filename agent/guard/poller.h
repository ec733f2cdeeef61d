// The guard's event loop: descriptors and what to do when they are ready. One thread; callbacks may add
// and remove descriptors, their own too, and may run the loop themselves to wait for something.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>

namespace poolmark::guard {

class Poller {
 public:
  using Callback = std::function<void(short revents)>;

  void Watch(int fd, short events, Callback callback);
  void ChangeEvents(int fd, short events);
  void Forget(int fd);
  // Waits at most `timeout` for one round of events and serves them. False: nothing happened.
  bool RunOnce(std::chrono::milliseconds timeout);
  // Runs until `done` holds or `limit` has passed; true: it held. `done` is asked after each round and at
  // least every `step`.
  bool RunUntil(const std::function<bool()>& done, std::chrono::nanoseconds limit,
                std::chrono::milliseconds step = std::chrono::milliseconds(20));

 private:
  struct Entry {
    short events = 0;
    std::shared_ptr<Callback> callback;
    uint64_t generation = 0;
  };
  std::map<int, Entry> entries_;
  uint64_t generation_ = 0;
};

}  // namespace poolmark::guard
