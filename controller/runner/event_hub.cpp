#include "controller/runner/event_hub.h"

#include <utility>
#include <vector>

namespace poolmark::controller {

EventHub::Subscription::Subscription(Subscription&& other) noexcept
    : hub_(std::exchange(other.hub_, nullptr)), job_(std::move(other.job_)), id_(other.id_) {}

EventHub::Subscription& EventHub::Subscription::operator=(Subscription&& other) noexcept {
  if (this != &other) {
    End();
    hub_ = std::exchange(other.hub_, nullptr);
    job_ = std::move(other.job_);
    id_ = other.id_;
  }
  return *this;
}

void EventHub::Subscription::End() {
  if (hub_ == nullptr) return;
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(hub_->mutex_);
    auto job = hub_->entries_.find(job_);
    if (job != hub_->entries_.end()) {
      auto found = job->second.find(id_);
      if (found != job->second.end()) {
        entry = found->second;
        job->second.erase(found);
      }
      if (job->second.empty()) hub_->entries_.erase(job);
    }
  }
  hub_ = nullptr;
  if (!entry) return;
  std::lock_guard lock(entry->mutex);
  entry->callback = nullptr;
}

EventHub::Subscription EventHub::Subscribe(const std::string& job, Callback callback) {
  auto entry = std::make_shared<Entry>();
  entry->callback = std::move(callback);
  std::lock_guard lock(mutex_);
  const uint64_t id = next_++;
  entries_[job][id] = std::move(entry);
  return Subscription(this, job, id);
}

void EventHub::Publish(const std::string& job, const v1::JobEvent& event) {
  std::vector<std::shared_ptr<Entry>> watchers;
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(job);
    if (found == entries_.end()) return;
    for (const auto& [id, entry] : found->second) watchers.push_back(entry);
  }
  for (const auto& watcher : watchers) {
    std::lock_guard lock(watcher->mutex);
    if (watcher->callback) watcher->callback(event);
  }
}

}  // namespace poolmark::controller
