#include "agent/guard/poller.h"

#include <poll.h>

#include <vector>

namespace poolmark::guard {

void Poller::Watch(int fd, short events, Callback callback) {
  entries_[fd] = Entry{events, std::make_shared<Callback>(std::move(callback)), ++generation_};
}

void Poller::ChangeEvents(int fd, short events) {
  if (auto found = entries_.find(fd); found != entries_.end()) found->second.events = events;
}

void Poller::Forget(int fd) {
  entries_.erase(fd);
}

bool Poller::RunOnce(std::chrono::milliseconds timeout) {
  std::vector<pollfd> fds;
  std::vector<uint64_t> generations;
  for (const auto& [fd, entry] : entries_) {
    fds.push_back(pollfd{fd, entry.events, 0});
    generations.push_back(entry.generation);
  }
  int ready = poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
  if (ready <= 0) return false;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    // A callback before this one may have closed the descriptor, and another may have its number now.
    auto found = entries_.find(fds[i].fd);
    if (found == entries_.end() || found->second.generation != generations[i]) continue;
    std::shared_ptr<Callback> callback = found->second.callback;
    (*callback)(fds[i].revents);
  }
  return true;
}

bool Poller::RunUntil(const std::function<bool()>& done, std::chrono::nanoseconds limit,
                      std::chrono::milliseconds step) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    RunOnce(step);
  }
  return true;
}

}  // namespace poolmark::guard
