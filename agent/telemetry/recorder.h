// Turns readings into delta-coded batches and keeps them in a ring of bounded size. A reader that falls
// behind loses the oldest batches, is told so, and gets the state at the gap's end, so that differences go on
// from there. Recording never waits for a reader. Thread-safe.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/telemetry/point.h"
#include "common/base/clock.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

class Recorder {
 public:
  explicit Recorder(size_t ring_bytes) : ring_bytes_(ring_bytes) {}

  // One per schedule: what a reading of it lacks was there before is "no longer exposed".
  size_t AddStream(std::string source);
  // `at`: when the reading began.
  void Add(size_t stream, Nanoseconds steady, Nanoseconds wall, Nanoseconds duration, const Reading& reading);
  // No more batches come.
  void End();

  std::optional<v1::StreamSamplesResponse> Next(uint64_t after_sequence, Nanoseconds wait);
  uint64_t last_sequence() const;

 private:
  struct SeriesState {
    uint32_t id = 0;
    std::optional<Measured<double>> last;  // as sent
    std::optional<double> last_raw;        // last number, for resets
    double wrapped = 0;                    // added to a counter of 32 bits
    uint64_t round = 0;
    bool level = false;  // a gauge
  };
  struct Stream {
    std::string source;
    std::unordered_map<std::string, SeriesState> series;
    std::map<std::string, std::string> identity;
    uint64_t round = 0;
  };
  struct Batch {
    uint64_t sequence = 0;
    size_t bytes = 0;
    v1::StreamSamplesResponse message;
  };
  // The last reading of a series among the batches that the ring has lost.
  struct Lost {
    v1::SeriesDefinition definition;
    uint64_t defined_in = 0;
    uint64_t changed_in = 0;
    v1::SamplePoint point;
    int64_t steady_ns = 0, wall_ns = 0;
    std::string source;
  };

  SeriesState& StateOf(Stream* stream, const Point& point, v1::StreamSamplesResponse* batch);
  // The value to send, and a mark when the counter began anew.
  Measured<double> Track(const Point& point, SeriesState* state, bool restarted, v1::SampleRound* round);
  // A level does not stand while its source cannot be read; a counter goes on where it was.
  static void LoseLevels(Stream* stream, const std::string& why, v1::SampleRound* round);
  void Push(v1::StreamSamplesResponse message);
  void Forget(const Batch& batch);
  v1::StreamSamplesResponse GapAfter(uint64_t after_sequence) const;

  const size_t ring_bytes_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Stream> streams_;
  uint32_t next_series_ = 1;
  uint64_t last_sequence_ = 0;
  bool ended_ = false;
  std::deque<Batch> ring_;
  size_t held_bytes_ = 0;
  std::map<uint32_t, Lost> lost_;
};

}  // namespace poolmark::agent
