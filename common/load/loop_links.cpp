// Connections of a loop: opened, found idle, given back, closed.
#include <sys/epoll.h>

#include <algorithm>

#include "common/load/loop.h"
#include "common/load/loop_link.h"

namespace poolmark::load {
namespace {

// A user whose connect failed waits before the next try, instead of spinning.
constexpr int64_t kConnectPause = 100'000'000;

}  // namespace

Loop::Link* Loop::FindIdle(uint32_t target, int64_t now) {
  std::vector<Link*>& idle = idle_[target];
  while (!idle.empty()) {
    Link* const link = idle.back();
    idle.pop_back();
    link->idle = false;
    if (now - link->idle_since <= options_.keep_alive.count()) return link;
    CloseLink(link, false);
  }
  return nullptr;
}

// A new connection, for `request` or (nullptr) to be idle at first.
void Loop::OpenLink(uint32_t target, const Request* request) {
  auto owned = std::make_unique<Link>();
  Link* const link = owned.get();
  link->target = target;
  link->index = links_.size();
  link->opened_at = Now();
  if (request != nullptr) {
    link->request = *request;
    ++busy_;
  }
  links_.push_back(std::move(owned));
  LoopLive::Add(live_.connections, 1);
  const Connection::Io io = link->connection.Open(targets_[target]);
  if (io == Connection::Io::kLost) return FailConnect(link);
  epoll_event event{EPOLLIN | (io == Connection::Io::kBlocked ? EPOLLOUT : 0u), {.ptr = link}};
  link->watches_writes = io == Connection::Io::kBlocked;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, link->connection.fd(), &event);
  if (io == Connection::Io::kOk) Connected(link);
}

void Loop::Connected(Link* link) {
  link->connecting = false;
  link->connect_took = Now() - link->opened_at;
  WatchWrites(link, false);
  if (link->request.has_value()) return BeginExchange(link);
  Release(link, Now());
}

void Loop::WatchWrites(Link* link, bool on) {
  if (link->watches_writes == on) return;
  link->watches_writes = on;
  epoll_event event{EPOLLIN | (on ? EPOLLOUT : 0u), {.ptr = link}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, link->connection.fd(), &event);
}

// No connection. `link` may carry a request or be one of those opened ahead.
void Loop::FailConnect(Link* link) {
  const std::string why = !link->connection.error().empty() ? link->connection.error()
                          : link->connection.connected()
                              ? "no answer to the TLS handshake within the connect timeout"
                              : "no connection within the connect timeout";
  const int64_t opened = link->opened_at;
  std::optional<Request> request = link->request;
  link->request.reset();
  CloseLink(link, false);
  if (!request.has_value()) return;
  --busy_;
  now_ = Now();
  RequestRecord record = NewRecord(*request, link->target);
  record.started = record.sent = std::max(opened, std::min(request->due, now_));
  if (!CountMeasured(&*request, record.window_time())) return Drop(*request);
  record.connect = now_ - opened;
  record.end = now_;
  record.outcome = cut_ ? Outcome::kCancelled : Outcome::kConnect;
  record.error = why;
  if (request->attempt == 1) {
    LoopLive::Add(live_.started, 1);
  } else {
    LoopLive::Add(live_.extra_attempts, 1);
  }
  if (RetryWanted(record, *request, false)) {
    return ScheduleRetry(*request, record.intended.value_or(record.started), std::nullopt, now_);
  }
  Publish(&record);
  TurnEnded(*request, false, now_ + (options_.mode == LoadOptions::Mode::kClosed ? kConnectPause : 0));
}

void Loop::Release(Link* link, int64_t now) {
  std::deque<Request>& waiting = waiting_[link->target];
  link->idle_since = now;
  link->idle = true;
  idle_[link->target].push_back(link);
  if (!waiting.empty()) {
    const Request request = waiting.front();
    waiting.pop_front();
    ready_.push_front(request);
  }
}

void Loop::CloseLink(Link* link, bool reset) {
  if (link->idle) {
    std::vector<Link*>& idle = idle_[link->target];
    idle.erase(std::remove(idle.begin(), idle.end(), link), idle.end());
    link->idle = false;
  }
  link->closed = true;
  link->connection.Close(reset);
  // The object stays until the batch of events is over.
  const size_t index = link->index;
  buried_.push_back(std::move(links_[index]));
  if (index + 1 != links_.size()) {
    links_[index] = std::move(links_.back());
    links_[index]->index = index;
  }
  links_.pop_back();
  // A place is free: who waited for one goes first.
  for (std::deque<Request>& waiting : waiting_) {
    if (waiting.empty()) continue;
    const Request request = waiting.front();
    waiting.pop_front();
    ready_.push_front(request);
    break;
  }
}

}  // namespace poolmark::load
