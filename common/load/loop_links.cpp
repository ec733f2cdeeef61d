// Connections of a loop: opened, found idle, given back, closed.
#include <sys/epoll.h>

#include <algorithm>

#include "common/load/loop.h"
#include "common/load/loop_link.h"

namespace poolmark::load {
namespace {

// A user whose connect failed waits before the next try, instead of spinning.
constexpr int64_t kConnectPause = 100'000'000;
// A connection that two servers with equally many would have in turn stays for this many more requests, and
// not longer than this after the last change.
constexpr int kMostKept = 4;
constexpr int64_t kSidesKept = 100'000'000;

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
  ++links_to_[target];
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
  link->kept = true;
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
  const bool own_limit = link->connection.own_limit();
  std::optional<Request> request = link->request;
  link->request.reset();
  CloseLink(link, false);
  if (!request.has_value()) return;
  --busy_;
  now_ = Now();
  RequestRecord record = NewRecord(*request, link->target);
  record.started = record.sent = std::max(opened, std::min(request->due, now_));
  if (!CountMeasured(&*request, record.window_time())) return Drop(*request);
  record.end = now_;
  record.outcome = cut_ ? Outcome::kCancelled : Outcome::kConnect;
  record.error = !cut_ ? why : request->attempt > 1 ? kCutBetweenAttempts : kCutUnsent;
  if (own_limit) LoopLive::Add(live_.own_limits, 1);
  if (request->attempt == 1) {
    LoopLive::Add(live_.started, 1);
  } else {
    LoopLive::Add(live_.extra_attempts, 1);
  }
  if (RetryWanted(record, *request, false)) return ScheduleRetry(*request, record, std::nullopt);
  Publish(&record);
  TurnEnded(*request, false, now_ + (options_.mode == LoadOptions::Mode::kClosed ? kConnectPause : 0));
}

void Loop::Release(Link* link, int64_t now) {
  link->idle_since = now;
  link->idle = true;
  idle_[link->target].push_back(link);
  WakeWaiting(link->target);
}

// At the limit an idle connection to another server gives its place, of the server with the most of them the
// one that was used longest ago. False: none is idle.
bool Loop::MakeRoom() {
  std::vector<Link*>* most = &idle_[0];
  for (std::vector<Link*>& idle : idle_) {
    if (idle.size() > most->size()) most = &idle;
  }
  if (most->empty()) return false;
  Bury(most->front(), false);
  return true;
}

void Loop::Wait(uint32_t target, const Request& request) {
  std::deque<Request>& waiting = waiting_[target];
  if (request.waited) return waiting.push_front(request);
  LoopLive::Add(live_.waited_for_connection, 1);
  waiting.push_back(request);
  waiting.back().waited = true;
  waiting.back().wait_order = wait_order_++;
}

// A connection to `freed` became idle or was closed: one request that waits takes its place. The server with
// the fewest connections goes first, so that each that is asked keeps its share and none is starved; among
// equals who has waited longest, or for some requests whose place it was.
void Loop::WakeWaiting(uint32_t freed) {
  std::deque<Request>* next = nullptr;
  uint32_t fewest = 0;
  for (uint32_t target = 0; target < waiting_.size(); ++target) {
    std::deque<Request>& waiting = waiting_[target];
    if (waiting.empty()) continue;
    // The place that is given away counts for nobody; a closed one does not any more.
    const uint32_t links = links_to_[target] - (target == freed && !idle_[target].empty() ? 1 : 0);
    if (next != nullptr &&
        (links > fewest || (links == fewest && waiting.front().wait_order > next->front().wait_order)))
      continue;
    next = &waiting;
    fewest = links;
  }
  if (next == nullptr) return;
  // To change sides costs a connection: an odd place does not do so after each short request.
  std::deque<Request>& own = waiting_[freed];
  if (next != &own && !idle_[freed].empty()) {
    if (!own.empty() && links_to_[freed] - 1 == fewest && kept_in_a_row_ < kMostKept &&
        now_ - changed_sides_at_ < kSidesKept) {
      ++kept_in_a_row_;
      next = &own;
    } else {
      kept_in_a_row_ = 0;
      changed_sides_at_ = now_;
    }
  }
  ready_.push_front(next->front());
  next->pop_front();
}

void Loop::CloseLink(Link* link, bool reset) {
  const uint32_t target = link->target;
  Bury(link, reset);
  WakeWaiting(target);  // a place is free
}

// Closes without anybody taking the place.
void Loop::Bury(Link* link, bool reset) {
  --links_to_[link->target];
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
}

}  // namespace poolmark::load
