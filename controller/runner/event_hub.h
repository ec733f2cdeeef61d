// Who watches which job: stored events as they are committed, and progress ticks, which are kept nowhere.
// Callbacks run on the publisher's thread and must not block. Thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

class EventHub {
 public:
  using Callback = std::function<void(const v1::JobEvent&)>;

  // Ends the subscription when it goes; its callback does not run any more after that.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(EventHub* hub, std::string job, uint64_t id) : hub_(hub), job_(std::move(job)), id_(id) {}
    Subscription(Subscription&& other) noexcept;
    Subscription& operator=(Subscription&& other) noexcept;
    ~Subscription() { End(); }
    void End();

   private:
    EventHub* hub_ = nullptr;
    std::string job_;
    uint64_t id_ = 0;
  };

  Subscription Subscribe(const std::string& job, Callback callback);
  void Publish(const std::string& job, const v1::JobEvent& event);

 private:
  struct Entry {
    std::mutex mutex;  // held while the callback runs; `callback` empty once ended
    Callback callback;
  };
  std::mutex mutex_;  // the rest
  uint64_t next_ = 1;
  std::map<std::string, std::map<uint64_t, std::shared_ptr<Entry>>> entries_;
};

}  // namespace poolmark::controller
