#include "controller/api/job_watch.h"

#include <vector>

namespace poolmark::controller {
namespace {

constexpr Nanoseconds kKeepAlive = std::chrono::seconds(15);
constexpr Nanoseconds kRetry = std::chrono::milliseconds(100);  // a watcher whose outbox was full
constexpr size_t kFull = 48;                                    // of the 64 messages an outbox holds

}  // namespace

JobWatches::JobWatches(const Environment& environment)
    : environment_(environment), pump_([this](std::stop_token stop) { Pump(stop); }) {}

JobWatches::~JobWatches() {
  pump_.request_stop();
  pump_.join();
  for (const auto& watcher : watchers_) {
    watcher->subscription.End();
    watcher->outbox->Finish(Unavailable("WatchJob", "the controller is ending"));
  }
}

void JobWatches::Add(const v1::WatchJobRequest& request,
                     std::shared_ptr<rpc::Outbox<v1::WatchJobResponse>> outbox) {
  auto watcher = std::make_shared<Watcher>();
  watcher->request = request;
  watcher->outbox = std::move(outbox);
  watcher->last = request.after_sequence();
  watcher->last_message = environment_.clock->Steady();
  std::weak_ptr<Watcher> weak = watcher;
  watcher->subscription =
      environment_.hub->Subscribe(request.job_id(), [this, weak](const v1::JobEvent& event) {
        auto target = weak.lock();
        if (!target) return;
        if (event.sequence() == 0) {
          if (target->request.no_progress()) return;
          v1::WatchJobResponse tick;
          *tick.mutable_event() = event;
          (void)target->outbox->TryPush(std::move(tick));
          return;
        }
        std::lock_guard lock(mutex_);
        target->dirty = true;
        changed_.notify_all();
      });
  std::lock_guard lock(mutex_);
  watchers_.push_back(std::move(watcher));
  changed_.notify_all();
}

bool JobWatches::Serve(Watcher* watcher) {
  for (;;) {
    if (watcher->outbox->closed()) return false;
    if (watcher->outbox->queued() >= kFull) {
      std::lock_guard lock(mutex_);
      watcher->dirty = true;
      return true;
    }
    auto events = environment_.store->Events(watcher->request.job_id(), watcher->last,
                                             static_cast<uint32_t>(kFull - watcher->outbox->queued()));
    if (!events.ok()) {
      watcher->outbox->Finish(events.status());
      return false;
    }
    if (events->empty()) {
      auto job = environment_.store->Get(watcher->request.job_id());
      // Deleted meanwhile, or ended before `after_sequence`.
      const bool over =
          !job.ok() || (IsTerminal(job->job.state()) && watcher->last >= job->job.last_sequence());
      if (!over && !watcher->request.no_follow()) return true;
      watcher->outbox->Finish(job.ok() ? absl::OkStatus() : job.status());
      return false;
    }
    for (v1::JobEvent& event : *events) {
      watcher->last = event.sequence();
      const bool terminal = IsTerminal(event.state()) && event.kind() == "state";
      v1::WatchJobResponse message;
      *message.mutable_event() = std::move(event);
      if (watcher->outbox->TryPush(std::move(message)) != rpc::Outbox<v1::WatchJobResponse>::Pushed::kTaken) {
        // A tick came between the look at the queue and here: this event again, later.
        --watcher->last;
        std::lock_guard lock(mutex_);
        watcher->dirty = true;
        return !watcher->outbox->closed();
      }
      watcher->last_message = environment_.clock->Steady();
      if (terminal) {
        watcher->outbox->Finish(absl::OkStatus());
        return false;
      }
    }
  }
}

void JobWatches::Pump(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::vector<std::shared_ptr<Watcher>> due;
    bool any = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop,
                        watchers_.empty() ? Nanoseconds(kKeepAlive) : Nanoseconds(std::chrono::seconds(1)),
                        [this] {
                          for (const auto& watcher : watchers_) {
                            if (watcher->dirty) return true;
                          }
                          return false;
                        });
      for (const auto& watcher : watchers_) {
        const bool quiet = environment_.clock->Steady() - watcher->last_message > kKeepAlive;
        if (watcher->dirty || quiet || watcher->outbox->closed()) due.push_back(watcher);
        watcher->dirty = false;
      }
    }
    for (const auto& watcher : due) {
      bool alive = Serve(watcher.get());
      if (alive && environment_.clock->Steady() - watcher->last_message > kKeepAlive) {
        (void)watcher->outbox->TryPush(v1::WatchJobResponse());
        watcher->last_message = environment_.clock->Steady();
      }
      if (!alive) {
        watcher->subscription.End();
        std::lock_guard lock(mutex_);
        watchers_.remove(watcher);
      }
      any = any || watcher->outbox->queued() >= kFull;
    }
    if (any) WaitFor(stop, kRetry);
  }
}

}  // namespace poolmark::controller
