#include "common/load/accumulator.h"

#include <algorithm>

namespace poolmark::load {

std::optional<double> TimePerOutputToken(const RequestRecord& record) {
  if (!record.first_output.has_value() || record.output_tokens.value_or(0) < 2) return std::nullopt;
  const int64_t tokens = *record.output_tokens - static_cast<int64_t>(record.first_event_tokens);
  if (tokens < 1) return std::nullopt;
  return static_cast<double>(*record.last_output - *record.first_output) / static_cast<double>(tokens);
}

std::optional<double> GapPercentile(const Accumulator& records, double share) {
  const std::optional<double> value = records.gaps->Percentile(share);
  if (!value.has_value()) return std::nullopt;
  return std::clamp(*value, static_cast<double>(records.min_gap), static_cast<double>(records.max_gap));
}

void Accumulator::Add(const RequestRecord& record, int64_t window_start) {
  RequestFigures figures;
  figures.window_time = record.window_time();
  last_end = std::max(last_end, record.end);
  if (in_flight.has_value()) in_flight->Add(record);
  figures.outcome = record.outcome;
  figures.primer = record.primer;
  if (record.first_output.has_value()) {
    figures.ttft = *record.first_output - record.latency_start();
    figures.latency = *record.last_output - record.latency_start();
    figures.ttft_from_sent = static_cast<float>(*record.first_output - record.sent);
  }
  if (record.kernel_first_output.has_value()) {
    figures.kernel_ttft =
        static_cast<float>(std::max<int64_t>(0, *record.kernel_first_output - record.latency_start()));
  }
  if (record.first_answer_output.has_value()) {
    figures.answer_ttft = static_cast<float>(*record.first_answer_output - record.latency_start());
  }
  if (const auto time = TimePerOutputToken(record)) figures.time_per_output_token = static_cast<float>(*time);
  if (record.connect.has_value()) figures.connect = static_cast<float>(*record.connect);
  if (record.first_byte.has_value())
    figures.first_byte = static_cast<float>(*record.first_byte - record.latency_start());
  const auto small = [](const std::optional<int64_t>& n) {
    return static_cast<uint32_t>(std::clamp<int64_t>(n.value_or(0), 0, UINT32_MAX));
  };
  figures.input_tokens = small(record.input_tokens);
  figures.has_input_tokens = record.input_tokens.has_value();
  figures.has_cached_tokens = record.cached_tokens.has_value();
  figures.cached_tokens = small(record.cached_tokens);
  figures.output_tokens = small(record.output_tokens);
  figures.counted = record.output_tokens_counted;
  requests.push_back(figures);
  if (record.outcome != Outcome::kOk) {
    std::string& example = examples[static_cast<size_t>(record.outcome)];
    if (example.empty()) {
      example = record.http_status >= 300 ? "HTTP " + std::to_string(record.http_status) + ": " + record.error
                                          : record.error;
    }
    return;
  }
  if (record.primer) return;
  if (record.input_tokens.has_value()) {
    ++prompts_counted;
    if (*record.input_tokens != record.planned_input_tokens) ++prompts_counted_otherwise;
    prompt_tokens_planned += record.planned_input_tokens;
    prompt_tokens_counted += figures.input_tokens;
  }
  if (record.window_time() < window_start) return;
  for (size_t i = 1; i < record.events.size(); ++i) {
    const int64_t gap = record.events[i].at - record.events[i - 1].at;
    gaps->Add(gap);
    gap_sum += static_cast<double>(gap);
    min_gap = std::min(min_gap, gap);
    max_gap = std::max(max_gap, gap);
    ++gap_count;
  }
}

void Accumulator::Merge(Accumulator other) {
  if (requests.empty()) {
    requests = std::move(other.requests);
  } else {
    requests.insert(requests.end(), other.requests.begin(), other.requests.end());
  }
  gaps->Merge(*other.gaps);
  gap_sum += other.gap_sum;
  gap_count += other.gap_count;
  min_gap = std::min(min_gap, other.min_gap);
  max_gap = std::max(max_gap, other.max_gap);
  last_end = std::max(last_end, other.last_end);
  prompts_counted += other.prompts_counted;
  prompts_counted_otherwise += other.prompts_counted_otherwise;
  prompt_tokens_planned += other.prompt_tokens_planned;
  prompt_tokens_counted += other.prompt_tokens_counted;
  if (other.in_flight.has_value()) {
    if (!in_flight.has_value()) in_flight.emplace();
    in_flight->Merge(*other.in_flight);
  }
  for (int i = 0; i < kOutcomes; ++i) {
    if (examples[static_cast<size_t>(i)].empty())
      examples[static_cast<size_t>(i)] = std::move(other.examples[static_cast<size_t>(i)]);
  }
}

}  // namespace poolmark::load
