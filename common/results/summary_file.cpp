#include "common/results/summary_file.h"

#include <concepts>

#include "common/results/codec.h"
#include "common/results/layout.h"
#include "common/results/schema_parts.h"
#include "common/results/shared_fields.h"

namespace poolmark::results {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SummaryFigure>
void Fields(V& visit, S& value) {
  visit("unit", value.unit);
  visit("n", value.n);
  visit("mean", value.mean);
  visit("low", value.low);
  visit("high", value.high);
  visit("deviation", value.deviation);
  visit("repeats", value.repeats);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SummaryRepeat>
void Fields(V& visit, S& value) {
  visit("repeat", value.repeat);
  visit("cycle", value.cycle);
  visit("valid", value.valid);
  visit("directory", value.directory);
  visit("reasons", value.reasons);
  visit("warnings", value.warnings);
  visit("notes", value.notes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SummaryPoint>
void Fields(V& visit, S& value) {
  visit("point", value.point);
  visit("strategy", value.strategy);
  visit("shape", value.shape);
  visit("simulated", value.simulated);
  visit("engine_cache", value.engine_cache);
  visit("measured_line", value.measured_line);
  visit("valid", value.valid);
  visit("preliminary", value.preliminary);
  visit("diagnostic", value.diagnostic);
  visit("client_limited", value.client_limited);
  visit("figures", value.figures);
  visit("repeats", value.repeats);
  visit("warnings", value.warnings);
  visit("notes", value.notes);
  visit("publishable", value.publishable);
  visit("held_back_by", value.held_back_by);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SummaryComparison>
void Fields(V& visit, S& value) {
  visit("baseline", value.baseline);
  visit("candidate", value.candidate);
  visit("workload", value.workload);
  visit("level", value.level);
  visit("figure", value.figure);
  visit("lower_is_better", value.lower_is_better);
  visit("verdict", value.verdict);
  visit("pairs", value.pairs);
  visit("paired_sessions", value.paired_sessions);
  visit("baseline_mean", value.baseline_mean);
  visit("candidate_mean", value.candidate_mean);
  visit("relative", value.relative);
  visit("low", value.low);
  visit("high", value.high);
  visit("same_within", value.same_within);
  visit("repeats_needed", value.repeats_needed);
  visit("session_relative", value.session_relative);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SummaryFile>
void Fields(V& visit, S& value) {
  visit("job_id", value.job_id);
  visit("state", value.state);
  visit("verdict", value.verdict);
  visit("baseline", value.baseline);
  visit("points", value.points);
  visit("comparisons", value.comparisons);
  visit("publishable", value.publishable);
  visit("held_back_by", value.held_back_by);
  visit("notes", value.notes);
}

Result<std::string> Encode(const SummaryFile& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<SummaryFile> DecodeSummary(std::string_view text, std::string_view where) {
  return DecodeFile<SummaryFile>(text, where, kSchemaVersion);
}
Json SummarySchema() {
  return FileSchema<SummaryFile>("summary.json", kSchemaVersion);
}

}  // namespace poolmark::results
