#include "agent/telemetry/recorder.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"

namespace poolmark::agent {
namespace {

constexpr size_t kMaxSeriesOfStream = 5'000;  // an engine that invents labels must not fill our memory
constexpr size_t kMaxResponseBytes = 256u << 10;
constexpr double kWrap = 4294967296.0;

std::string KeyOf(const Point& point) {
  std::string key = point.name;
  for (const auto& [name, value] : point.labels) {
    key += '\x1f';
    key += name;
    key += '\x1e';
    key += value;
  }
  return key;
}

v1::SamplePoint ToPoint(uint32_t series, const Measured<double>& value) {
  v1::SamplePoint point;
  point.set_series(series);
  if (value.has_value()) {
    point.set_value(*value);
  } else {
    point.set_not_measured(ValidUtf8(value.reason()));
  }
  return point;
}

}  // namespace

size_t Recorder::AddStream(std::string source) {
  const std::lock_guard lock(mutex_);
  Stream stream;
  stream.source = std::move(source);
  streams_.push_back(std::move(stream));
  return streams_.size() - 1;
}

Recorder::SeriesState& Recorder::StateOf(Stream* stream, const Point& point,
                                         v1::StreamSamplesResponse* batch) {
  SeriesState& state = stream->series[KeyOf(point)];
  if (state.id != 0) return state;
  state.id = next_series_++;
  v1::SeriesDefinition* definition = batch->add_series();
  definition->set_id(state.id);
  definition->set_source(stream->source);
  definition->set_name(point.name);
  for (const auto& [name, value] : point.labels) {
    v1::Label* label = definition->add_labels();
    label->set_key(ValidUtf8(name));
    label->set_value(ValidUtf8(value));
  }
  if (point.series != nullptr) {
    definition->set_unit(point.series->unit);
    definition->set_kind(std::string(prom::KindName(point.series->kind)));
    state.level = point.series->kind == prom::Kind::kGauge;
  }
  return state;
}

Measured<double> Recorder::Track(const Point& point, SeriesState* state, bool restarted,
                                 v1::SampleRound* round) {
  if (!point.value.has_value() || point.series == nullptr || point.series->kind != prom::Kind::kCounter) {
    return point.value;
  }
  const double raw = *point.value;
  if (state->last_raw && raw < *state->last_raw) {
    const bool wraps = point.series->width_bits == 32 && *state->last_raw > kWrap / 2 &&
                       *state->last_raw < kWrap && raw < kWrap / 2;
    if (wraps && !restarted) {
      state->wrapped += kWrap;
    } else {
      state->wrapped = 0;
      if (!restarted) {
        v1::SampleReset* reset = round->add_resets();
        reset->set_series(state->id);
        reset->set_reason(absl::StrCat("value fell from ", *state->last_raw, " to ", raw));
      }
    }
  }
  state->last_raw = raw;
  return raw + state->wrapped;
}

void Recorder::LoseLevels(Stream* stream, const std::string& why, v1::SampleRound* round) {
  for (auto& [key, state] : stream->series) {
    if (!state.level || !state.last || !state.last->has_value()) continue;
    state.last = NotMeasured{why};
    *round->add_points() = ToPoint(state.id, *state.last);
  }
}

void Recorder::Add(size_t stream_index, Nanoseconds steady, Nanoseconds wall, Nanoseconds duration,
                   const Reading& reading) {
  const std::lock_guard lock(mutex_);
  Stream& stream = streams_[stream_index];
  v1::StreamSamplesResponse batch;
  v1::SampleRound* round = batch.add_rounds();
  round->set_steady_ns(steady.count());
  round->set_wall_ns(wall.count());
  round->set_source(stream.source);
  round->set_duration_ns(duration.count());
  if (!reading.failure.empty()) {
    round->set_failure(ValidUtf8(reading.failure));
    LoseLevels(&stream, reading.failure, round);
    Push(std::move(batch));
    return;
  }
  bool restarted = false;
  for (const auto& [name, value] : reading.identity) {
    const auto [known, added] = stream.identity.try_emplace(name, value);
    if (added || known->second == value) continue;
    if (!restarted) {
      v1::SampleReset* reset = round->add_resets();
      reset->set_reason(ValidUtf8(absl::StrCat(name, " changed from ", known->second, " to ", value)));
    }
    restarted = true;
    known->second = value;
  }
  ++stream.round;
  for (const Point& point : reading.points) {
    if (stream.series.size() >= kMaxSeriesOfStream && stream.series.count(KeyOf(point)) == 0) {
      round->set_failure(absl::StrCat("more than ", kMaxSeriesOfStream, " series: the rest is left out"));
      continue;
    }
    SeriesState& state = StateOf(&stream, point, &batch);
    if (state.round == stream.round) continue;  // the page gives it twice: the first counts
    state.round = stream.round;
    const Measured<double> value = Track(point, &state, restarted, round);
    if (state.last && *state.last == value) continue;
    *round->add_points() = ToPoint(state.id, value);
    state.last = value;
  }
  for (auto& [key, state] : stream.series) {
    if (state.round == stream.round || !state.last || !state.last->has_value()) continue;
    const Measured<double> gone = NotMeasured{"no longer exposed"};
    *round->add_points() = ToPoint(state.id, gone);
    state.last = gone;
  }
  Push(std::move(batch));
}

void Recorder::Push(v1::StreamSamplesResponse message) {
  message.set_sequence(++last_sequence_);
  Batch batch;
  batch.sequence = last_sequence_;
  batch.bytes = message.ByteSizeLong() + 256;  // and what a message costs in memory
  batch.message = std::move(message);
  held_bytes_ += batch.bytes;
  ring_.push_back(std::move(batch));
  while (held_bytes_ > ring_bytes_ && ring_.size() > 1) {
    Forget(ring_.front());
    held_bytes_ -= ring_.front().bytes;
    ring_.pop_front();
  }
  changed_.notify_all();
}

void Recorder::Forget(const Batch& batch) {
  for (const v1::SeriesDefinition& definition : batch.message.series()) {
    Lost& lost = lost_[definition.id()];
    lost.definition = definition;
    lost.defined_in = batch.sequence;
  }
  for (const v1::SampleRound& round : batch.message.rounds()) {
    for (const v1::SamplePoint& point : round.points()) {
      Lost& lost = lost_[point.series()];
      lost.point = point;
      lost.changed_in = batch.sequence;
      lost.steady_ns = round.steady_ns();
      lost.wall_ns = round.wall_ns();
      lost.source = round.source();
    }
  }
}

v1::StreamSamplesResponse Recorder::GapAfter(uint64_t after_sequence) const {
  v1::StreamSamplesResponse response;
  const uint64_t to = ring_.front().sequence - 1;
  response.set_sequence(to);
  response.mutable_gap()->set_from_sequence(after_sequence + 1);
  response.mutable_gap()->set_to_sequence(to);
  response.mutable_gap()->set_reason("the reader fell behind and the agent's buffer is full");
  std::map<std::string, v1::SampleRound> rounds;
  for (const auto& [id, lost] : lost_) {
    if (lost.defined_in > after_sequence) *response.add_series() = lost.definition;
    if (lost.changed_in <= after_sequence) continue;
    v1::SampleRound& round = rounds[lost.source];
    round.set_source(lost.source);
    if (lost.steady_ns >= round.steady_ns()) {
      round.set_steady_ns(lost.steady_ns);
      round.set_wall_ns(lost.wall_ns);
    }
    *round.add_points() = lost.point;
  }
  for (auto& [source, round] : rounds) *response.add_rounds() = std::move(round);
  return response;
}

std::optional<v1::StreamSamplesResponse> Recorder::Next(uint64_t after_sequence, Nanoseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return last_sequence_ > after_sequence || ended_; });
  if (last_sequence_ > after_sequence) {
    if (ring_.front().sequence > after_sequence + 1) return GapAfter(after_sequence);
    v1::StreamSamplesResponse response;
    size_t bytes = 0;
    for (size_t i = after_sequence + 1 - ring_.front().sequence; i < ring_.size(); ++i) {
      const Batch& batch = ring_[i];
      if (bytes > 0 && bytes + batch.bytes > kMaxResponseBytes) break;
      bytes += batch.bytes;
      response.set_sequence(batch.sequence);
      response.mutable_series()->MergeFrom(batch.message.series());
      response.mutable_rounds()->MergeFrom(batch.message.rounds());
    }
    return response;
  }
  if (!ended_) return std::nullopt;
  v1::StreamSamplesResponse response;
  response.set_sequence(last_sequence_);
  response.set_end(true);
  return response;
}

void Recorder::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

uint64_t Recorder::last_sequence() const {
  const std::lock_guard lock(mutex_);
  return last_sequence_;
}

}  // namespace poolmark::agent
