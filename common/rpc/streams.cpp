#include "common/rpc/streams.h"

#include <algorithm>
#include <list>
#include <thread>
#include <unordered_set>
#include <vector>

#include "common/base/log.h"

namespace poolmark::rpc {

void StreamCore::Bind(grpc::CallbackServerContext* context, Identity caller, std::function<void()> on_done) {
  context_ = context;
  caller_ = std::move(caller);
  on_done_ = std::move(on_done);
}

void StreamCore::Cancel() {
  std::lock_guard lock(context_mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void StreamCore::Done() {
  {
    std::lock_guard lock(context_mutex_);
    context_ = nullptr;
  }
  RequestStop();
  if (on_done_) on_done_();
}

struct Streams::State {
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::list<std::shared_ptr<StreamCore>> live;
  bool closed = false;
  std::deque<std::function<void()>> work;
  std::vector<std::thread> threads;
  size_t idle = 0;
  bool stopping = false;
};

Streams::Streams() : Streams(Limits{}) {}
Streams::Streams(Limits limits) : limits_(limits), state_(std::make_shared<State>()) {}

Streams::~Streams() {
  CloseAll(true);
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    threads.swap(state_->threads);
    state_->changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

void Streams::Register(const std::shared_ptr<StreamCore>& core, grpc::CallbackServerContext* context) {
  auto caller = CallerOf(*context);
  bool refuse = false;
  {
    std::lock_guard lock(state_->mutex);
    refuse = state_->closed;
    auto place = state_->live.insert(state_->live.end(), core);
    core->Bind(context, caller.ok() ? *caller : Identity{}, [state = state_, place] {
      std::shared_ptr<StreamCore> last;  // dies outside the lock
      std::lock_guard inner(state->mutex);
      last = std::move(*place);
      state->live.erase(place);
      state->changed.notify_all();
    });
  }
  if (refuse) core->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
}

bool Streams::RunWorker(std::function<void()> work) {
  std::lock_guard lock(state_->mutex);
  if (state_->stopping || state_->closed) return false;
  if (state_->idle <= state_->work.size()) {
    if (state_->threads.size() >= limits_.workers) return false;
    state_->threads.emplace_back([state = state_] {
      std::unique_lock inner(state->mutex);
      for (;;) {
        ++state->idle;
        state->changed.wait(inner, [&] { return state->stopping || !state->work.empty(); });
        --state->idle;
        if (state->work.empty()) return;
        auto next = std::move(state->work.front());
        state->work.pop_front();
        inner.unlock();
        try {
          next();
        } catch (const std::exception& error) {
          Log(LogLevel::kError, "rpc.stream_handler_threw", {{"what", error.what()}});
        }
        next = nullptr;  // drops the handle: the stream is finished now at the latest
        inner.lock();
      }
    });
  }
  state_->work.push_back(std::move(work));
  state_->changed.notify_all();
  return true;
}

Status Streams::Busy() {
  return ToStatus(Error{absl::StatusCode::kResourceExhausted, "busy", "", "too many streams at once",
                        "try again in a moment"});
}

void Streams::CloseAll(bool hard) {
  std::vector<std::shared_ptr<StreamCore>> live;
  {
    std::lock_guard lock(state_->mutex);
    state_->closed = true;
    live.assign(state_->live.begin(), state_->live.end());
  }
  for (const auto& core : live) {
    core->RequestStop();
    core->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
    if (hard) core->Cancel();
  }
}

void Streams::CancelIf(const std::function<bool(const Identity&)>& pred) {
  std::vector<std::shared_ptr<StreamCore>> live;
  {
    std::lock_guard lock(state_->mutex);
    live.assign(state_->live.begin(), state_->live.end());
  }
  for (const auto& core : live) {
    if (pred(core->caller())) core->Cancel();
  }
}

size_t Streams::open() const {
  std::lock_guard lock(state_->mutex);
  return state_->live.size();
}

bool Streams::WaitNone(std::chrono::milliseconds within) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, within, [this] { return state_->live.empty(); });
}

}  // namespace poolmark::rpc
