#include "common/results/repeat_file.h"

#include <concepts>

#include "common/results/codec.h"
#include "common/results/layout.h"
#include "common/results/schema_parts.h"
#include "common/results/shared_fields.h"

namespace poolmark::results {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, TransferFacts>
void Fields(V& visit, S& value) {
  visit("from", value.from);
  visit("to", value.to);
  visit("path", value.path);
  visit("bytes", value.bytes);
  visit("line_bits_per_second", value.line_bits_per_second);
  visit("series", value.series);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, CacheFacts>
void Fields(V& visit, S& value) {
  visit("process", value.process);
  visit("machine", value.machine);
  visit("capacity_tokens", value.capacity_tokens);
  visit("usage_mean", value.usage_mean);
  visit("usage_peak", value.usage_peak);
  visit("series", value.series);
  visit("capacity_series", value.capacity_series);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ReuseFacts>
void Fields(V& visit, S& value) {
  visit("reusable", value.reusable);
  visit("reusable_uncut", value.reusable_uncut);
  visit("reusable_lifetime", value.reusable_lifetime);
  visit("block_tokens", value.block_tokens);
  visit("working_set_tokens", value.working_set_tokens);
  visit("curve", value.curve);
  visit("scope", value.scope);
  visit("notes", value.notes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PowerSeries>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("kind", value.kind);
  visit("series", value.series);
  visit("watts", value.watts);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SwitchPowerFacts>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("input_watts", value.input_watts);
  visit("ports_used", value.ports_used);
  visit("ports_up", value.ports_up);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SwitchCounter>
void Fields(V& visit, S& value) {
  visit("switch_name", value.switch_name);
  visit("port", value.port);
  visit("queue", value.queue);
  visit("counter", value.counter);
  visit("unit", value.unit);
  visit("kind", value.kind);
  visit("value", value.value);
  visit("confirmed", value.confirmed);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, LinkAgreement>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("nic", value.nic);
  visit("switch_name", value.switch_name);
  visit("port", value.port);
  visit("nic_sent", value.nic_sent);
  visit("port_received", value.port_received);
  visit("port_sent", value.port_sent);
  visit("nic_received", value.nic_received);
  visit("seconds", value.seconds);
  visit("host_total", value.host_total);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, RepeatFacts>
void Fields(V& visit, S& value) {
  visit("job_id", value.job_id);
  visit("point", value.point);
  visit("repeat", value.repeat);
  visit("cycle", value.cycle);
  visit("strategy", value.strategy);
  visit("shape", value.shape);
  visit("baseline", value.baseline);
  visit("simulated", value.simulated);
  visit("open_loop", value.open_loop);
  visit("started", value.started);
  visit("ended", value.ended);
  visit("held_load", value.held_load);
  visit("load_seconds", value.load_seconds);
  visit("warm_up_seconds", value.warm_up_seconds);
  visit("measured_from", value.measured_from);
  visit("measured_to", value.measured_to);
  visit("drain_end", value.drain_end);
  visit("ran_out_of_sessions", value.ran_out_of_sessions);
  visit("client_limited", value.client_limited);
  visit("gpus", value.gpus);
  visit("slos", value.slos);
  visit("engines", value.engines);
  visit("transfers", value.transfers);
  visit("caches", value.caches);
  visit("reuse", value.reuse);
  visit("power", value.power);
  visit("switch_power", value.switch_power);
  visit("switch_counters", value.switch_counters);
  visit("links", value.links);
  visit("evidence", value.evidence);
  visit("notes", value.notes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, TransferFigures>
void Fields(V& visit, S& value) {
  visit("from", value.from);
  visit("to", value.to);
  visit("path", value.path);
  visit("bytes_per_second", value.bytes_per_second);
  visit("line_bytes_per_second", value.line_bytes_per_second);
  visit("share_of_line", value.share_of_line);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, LinkFigures>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("nic", value.nic);
  visit("switch_name", value.switch_name);
  visit("port", value.port);
  visit("verdict", value.verdict);
  visit("out_difference", value.out_difference);
  visit("in_difference", value.in_difference);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, RepeatFigures>
void Fields(V& visit, S& value) {
  visit("measured_line", value.measured_line);
  visit("valid", value.valid);
  visit("reasons", value.reasons);
  visit("warnings", value.warnings);
  visit("notes", value.notes);
  visit("requests", value.requests);
  visit("output_tokens_per_second_per_gpu", value.output_tokens_per_second_per_gpu);
  visit("goodput_per_gpu", value.goodput_per_gpu);
  visit("stability", value.stability);
  visit("sources", value.sources);
  visit("reused", value.reused);
  visit("reuse_captured", value.reuse_captured);
  visit("working_set_ratio", value.working_set_ratio);
  visit("gpu_kv_usage_mean", value.gpu_kv_usage_mean);
  visit("gpu_kv_usage_peak", value.gpu_kv_usage_peak);
  visit("gpu_kv_capacity_tokens", value.gpu_kv_capacity_tokens);
  visit("transfers", value.transfers);
  visit("kv_bytes_per_second", value.kv_bytes_per_second);
  visit("energy", value.energy);
  visit("links", value.links);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, RepeatFile>
void Fields(V& visit, S& value) {
  visit("facts", value.facts);
  visit("figures", value.figures);
}

Result<std::string> Encode(const RepeatFile& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<RepeatFile> DecodeRepeat(std::string_view text, std::string_view where) {
  return DecodeFile<RepeatFile>(text, where, kSchemaVersion);
}
Json RepeatSchema() {
  return FileSchema<RepeatFile>("repeat.json", kSchemaVersion);
}

}  // namespace poolmark::results
