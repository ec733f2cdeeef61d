#include "common/load/recorder.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "common/base/zstd_file.h"
#include "common/load/record_codec.h"
#include "common/load/thread_class.h"

namespace poolmark::load {
namespace {
constexpr size_t kBlock = 128 * 1024;
// Low: records are short-lived text, and the compressor shares the cores with the loops.
constexpr int kLevel = 1;
}  // namespace

struct Recorder::State {
  std::string path;
  std::unique_ptr<ZstdWriter> writer;
  std::mutex mutex;  // guards queue, closing and status
  std::condition_variable wake;
  std::deque<std::string> queue;
  bool closing = false;
  Status status;
  std::thread thread;
  class Sink;
  std::vector<std::unique_ptr<Sink>> sinks;
  const SharedPlan* plan = nullptr;
  int64_t warm_up = 0;
  bool counted_warm_up = false;

  void Push(std::string block) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(block));
    }
    wake.notify_one();
  }
  void Write() {
    RunInTheBackground();
    bool failed = false;
    for (;;) {
      std::string block;
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [this] { return closing || !queue.empty(); });
        if (queue.empty()) return;
        block = std::move(queue.front());
        queue.pop_front();
      }
      if (failed) continue;  // a stream with a hole cannot be read
      const Status written = writer->Write(block);
      failed = !written.ok();
      const std::lock_guard lock(mutex);
      if (status.ok()) status = written;
    }
  }
};

class Recorder::State::Sink final : public RecordSink {
 public:
  explicit Sink(State* state) : state_(*state) {}
  void Take(const RequestRecord& record) override {
    const int64_t dynamic = state_.plan->window_start.load(std::memory_order_relaxed);
    // Without a window yet, what has ended belongs to the warm-up.
    const bool none_yet = state_.counted_warm_up && dynamic < 0;
    totals.Add(record, none_yet ? INT64_MAX : std::max(state_.warm_up, dynamic));
    if (state_.writer == nullptr) return;
    AppendRecord(record, &text_);
    if (text_.size() >= kBlock) Flush();
  }
  void Flush() {
    if (text_.empty()) return;
    std::string next;
    next.reserve(kBlock + kBlock / 8);
    next.swap(text_);
    state_.Push(std::move(next));
  }
  Accumulator totals;

 private:
  State& state_;
  std::string text_;
};

std::string PartialRecords(const std::string& path) {
  constexpr std::string_view kEnd = ".jsonl.zst";
  return path.substr(0, path.size() - kEnd.size()) + ".partial" + std::string(kEnd);
}

Recorder::Recorder() : state_(std::make_unique<State>()) {}

Recorder::~Recorder() {
  if (state_->thread.joinable()) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->closing = true;
    }
    state_->wake.notify_one();
    state_->thread.join();
  }
}

Result<std::unique_ptr<Recorder>> Recorder::Create(const std::string& path, const SharedPlan& plan,
                                                   int64_t warm_up, bool counted_warm_up) {
  std::unique_ptr<Recorder> recorder(new Recorder);
  State* const state = recorder->state_.get();
  state->plan = &plan;
  state->warm_up = warm_up;
  state->counted_warm_up = counted_warm_up;
  if (path.empty()) return recorder;
  state->path = path;
  POOLMARK_ASSIGN_OR_RETURN(state->writer, ZstdWriter::Create(path, kLevel));
  state->thread = std::thread([state] { state->Write(); });
  return recorder;
}

RecordSink* Recorder::NewSink(bool of_several) {
  state_->sinks.push_back(std::make_unique<State::Sink>(state_.get()));
  if (of_several) state_->sinks.back()->totals.in_flight.emplace();
  return state_->sinks.back().get();
}

Status Recorder::Finish() {
  for (const auto& sink : state_->sinks) sink->Flush();
  if (state_->writer == nullptr) return absl::OkStatus();
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
  }
  state_->wake.notify_one();
  state_->thread.join();
  Status written = state_->status;
  if (written.ok()) written = state_->writer->Finish();
  if (!written.ok()) (void)state_->writer->KeepPartial(PartialRecords(state_->path));
  return written;
}

Accumulator Recorder::TakeTotals() {
  Accumulator all;
  for (const auto& sink : state_->sinks) all.Merge(std::move(sink->totals));
  return all;
}

}  // namespace poolmark::load
