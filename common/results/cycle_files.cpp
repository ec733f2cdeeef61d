#include "common/results/cycle_files.h"

#include <concepts>

#include "common/results/codec.h"
#include "common/results/layout.h"
#include "common/results/schema_parts.h"

namespace poolmark::results {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, CheckEntry>
void Fields(V& visit, S& value) {
  visit("id", value.id);
  visit("machine", value.machine);
  visit("outcome", value.outcome);
  visit("expected", value.expected);
  visit("observed", value.observed);
  visit("evidence", value.evidence);
  visit("hint", value.hint);
  visit("duration_seconds", value.duration_seconds);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, CounterProof>
void Fields(V& visit, S& value) {
  visit("process", value.process);
  visit("machine", value.machine);
  visit("series", value.series);
  visit("before", value.before);
  visit("after", value.after);
  visit("expected", value.expected);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, VerifyRecord>
void Fields(V& visit, S& value) {
  visit("job_id", value.job_id);
  visit("cycle", value.cycle);
  visit("stack", value.stack);
  visit("started", value.started);
  visit("ended", value.ended);
  visit("passed", value.passed);
  visit("failed_check", value.failed_check);
  visit("checks", value.checks);
  visit("proofs", value.proofs);
  visit("diagnosis", value.diagnosis);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, TeardownItem>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("kind", value.kind);
  visit("name", value.name);
  visit("state", value.state);
  visit("proof", value.proof);
  visit("detail", value.detail);
  visit("forced", value.forced);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, TeardownRecord>
void Fields(V& visit, S& value) {
  visit("job_id", value.job_id);
  visit("cycle", value.cycle);
  visit("stack", value.stack);
  visit("cause", value.cause);
  visit("started", value.started);
  visit("ended", value.ended);
  visit("outcome", value.outcome);
  visit("items", value.items);
  visit("leftovers", value.leftovers);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, LineRate>
void Fields(V& visit, S& value) {
  visit("from", value.from);
  visit("to", value.to);
  visit("path", value.path);
  visit("tool", value.tool);
  visit("tool_version", value.tool_version);
  visit("bits_per_second", value.bits_per_second);
  visit("runs", value.runs);
  visit("seconds", value.seconds);
  visit("streams", value.streams);
  visit("latency_p50_us", value.latency_p50_us);
  visit("latency_p99_us", value.latency_p99_us);
  visit("counted_per_byte", value.counted_per_byte);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PreflightRecord>
void Fields(V& visit, S& value) {
  visit("job_id", value.job_id);
  visit("started", value.started);
  visit("ended", value.ended);
  visit("passed", value.passed);
  visit("failed_check", value.failed_check);
  visit("checks", value.checks);
  visit("line_rates", value.line_rates);
  visit("notes", value.notes);
}

Result<std::string> Encode(const VerifyRecord& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<VerifyRecord> DecodeVerify(std::string_view text, std::string_view where) {
  return DecodeFile<VerifyRecord>(text, where, kSchemaVersion);
}
Result<std::string> Encode(const TeardownRecord& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<TeardownRecord> DecodeTeardown(std::string_view text, std::string_view where) {
  return DecodeFile<TeardownRecord>(text, where, kSchemaVersion);
}
Result<std::string> Encode(const PreflightRecord& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<PreflightRecord> DecodePreflight(std::string_view text, std::string_view where) {
  return DecodeFile<PreflightRecord>(text, where, kSchemaVersion);
}
Json PreflightSchema() {
  return FileSchema<PreflightRecord>("preflight.json", kSchemaVersion);
}
Json VerifySchema() {
  return FileSchema<VerifyRecord>("cycles/<n>/verify.json", kSchemaVersion);
}
Json TeardownSchema() {
  return FileSchema<TeardownRecord>("cycles/<n>/teardown.json", kSchemaVersion);
}

}  // namespace poolmark::results
