// Field lists that several codecs share, most of the statistics' structs. Internal to this directory.
#pragma once
#include <concepts>

#include "common/results/codec.h"
#include "common/results/repeat_file.h"

namespace poolmark::results {

template <>
struct EnumNames<stats::EngineFacts::Role> {
  static constexpr const char* names[] = {"aggregated", "prefill", "decode"};
};
template <>
struct EnumNames<stats::TierPlace> {
  static constexpr const char* names[] = {"none", "host", "storage", "remote"};
};
template <>
struct EnumNames<stats::Reason> {
  static constexpr const char* names[] = {"machine_silent", "clock_drift", "counter_backwards",
                                          "wrong_path",     "kv_format",   "starting_state",
                                          "no_accuracy",    "interrupted", "not_judged"};
};
template <>
struct EnumNames<stats::PowerKind> {
  static constexpr const char* names[] = {"bmc", "telemetry", "gpus"};
};

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PointId>
void Fields(V& visit, S& value) {
  visit("stack", value.stack);
  visit("workload", value.workload);
  visit("level", value.level);
}

}  // namespace poolmark::results

// Found by argument-dependent lookup.
namespace poolmark::stats {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, Distribution>
void Fields(V& visit, S& value) {
  visit("count", value.count);
  visit("mean", value.mean);
  visit("p50", value.p50);
  visit("p90", value.p90);
  visit("p99", value.p99);
  visit("min", value.min);
  visit("max", value.max);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, Slo>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("title", value.title);
  visit("source", value.source);
  visit("ttft_seconds", value.ttft_seconds);
  visit("tpot_seconds", value.tpot_seconds);
  visit("note", value.note);
  visit("share", value.share);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, Goodput>
void Fields(V& visit, S& value) {
  visit("slo", value.slo);
  visit("good_per_second", value.good_per_second);
  visit("share", value.share);
  visit("required_share", value.required_share);
  visit("met", value.met);
  visit("share_ttft", value.share_ttft);
  visit("share_tpot", value.share_tpot);
  visit("curve", value.curve);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, RequestFigures>
void Fields(V& visit, S& value) {
  visit("requests", value.requests);
  visit("failed", value.failed);
  visit("ttft", value.ttft);
  visit("tpot", value.tpot);
  visit("itl", value.itl);
  visit("latency", value.latency);
  visit("lateness", value.lateness);
  visit("sent_late", value.sent_late);
  visit("output_tokens", value.output_tokens);
  visit("output_tokens_per_second", value.output_tokens_per_second);
  visit("requests_per_second", value.requests_per_second);
  visit("client_prompt_tokens", value.client_prompt_tokens);
  visit("client_cached_tokens", value.client_cached_tokens);
  visit("counted", value.counted);
  visit("achieved_concurrency", value.achieved_concurrency);
  visit("peak_concurrency", value.peak_concurrency);
  visit("goodput", value.goodput);
  visit("ttft_curve", value.ttft_curve);
  visit("tpot_curve", value.tpot_curve);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, Stability>
void Fields(V& visit, S& value) {
  visit("tokens_per_second", value.tokens_per_second);
  visit("window_seconds", value.window_seconds);
  visit("variation", value.variation);
  visit("drift", value.drift);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, EngineFacts>
void Fields(V& visit, S& value) {
  visit("process", value.process);
  visit("machine", value.machine);
  visit("dialect", value.dialect);
  visit("version", value.version);
  visit("role", value.role);
  visit("has_gpu", value.has_gpu);
  visit("external_tiers", value.external_tiers);
  visit("second_level", value.second_level);
  visit("deltas", value.deltas);
  visit("cache", value.cache);
  visit("reset", value.reset);
  visit("unreadable", value.unreadable);
  visit("counters_from", value.counters_from);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, TokenSources>
void Fields(V& visit, S& value) {
  visit("prompt", value.prompt);
  visit("gpu", value.gpu);
  visit("host", value.host);
  visit("storage", value.storage);
  visit("remote", value.remote);
  visit("computed", value.computed);
  visit("not_attributed", value.not_attributed);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, EngineAttribution>
void Fields(V& visit, S& value) {
  visit("process", value.process);
  visit("machine", value.machine);
  visit("sources", value.sources);
  visit("over", value.over);
  visit("transferred_tokens", value.transferred_tokens);
  visit("recomputed_on_decode", value.recomputed_on_decode);
  visit("engine_cache_label", value.engine_cache_label);
  visit("series", value.series);
  visit("notes", value.notes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, Attribution>
void Fields(V& visit, S& value) {
  visit("total", value.total);
  visit("engines", value.engines);
  visit("closure_error", value.closure_error);
  visit("skew_tokens", value.skew_tokens);
  visit("client_difference", value.client_difference);
  visit("complete", value.complete);
  visit("notes", value.notes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, InvalidReason>
void Fields(V& visit, S& value) {
  visit("reason", value.reason);
  visit("detail", value.detail);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SilenceEvidence>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("seconds", value.seconds);
  visit("from", value.from);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ClockEvidence>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("worst_offset_seconds", value.worst_offset_seconds);
  visit("uncertainty_seconds", value.uncertainty_seconds);
  visit("step_seconds", value.step_seconds);
  visit("measured", value.measured);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ResetEvidence>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("process", value.process);
  visit("series", value.series);
  visit("before", value.before);
  visit("after", value.after);
  visit("at", value.at);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PathEvidence>
void Fields(V& visit, S& value) {
  visit("from", value.from);
  visit("to", value.to);
  visit("intended", value.intended);
  visit("expected_bytes", value.expected_bytes);
  visit("rdma_bytes", value.rdma_bytes);
  visit("tcp_bytes", value.tcp_bytes);
  visit("simulated", value.simulated);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, FormatEvidence>
void Fields(V& visit, S& value) {
  visit("reader", value.reader);
  visit("writer", value.writer);
  visit("field", value.field);
  visit("read_as", value.read_as);
  visit("written_as", value.written_as);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, StateEvidence::Tier>
void Fields(V& visit, S& value) {
  visit("process", value.process);
  visit("method", value.method);
  visit("held", value.held);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, StateEvidence>
void Fields(V& visit, S& value) {
  visit("declared", value.declared);
  visit("tiers", value.tiers);
  visit("holders", value.holders);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, AccuracyEvidence>
void Fields(V& visit, S& value) {
  visit("compression", value.compression);
  visit("verdict", value.verdict);
  visit("directory", value.directory);
  visit("detail", value.detail);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, Evidence>
void Fields(V& visit, S& value) {
  visit("silence_limit_seconds", value.silence_limit_seconds);
  visit("clock_limit_seconds", value.clock_limit_seconds);
  visit("silences", value.silences);
  visit("clocks", value.clocks);
  visit("resets", value.resets);
  visit("paths", value.paths);
  visit("formats", value.formats);
  visit("state", value.state);
  visit("accuracy", value.accuracy);
  visit("interrupted", value.interrupted);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, Joules>
void Fields(V& visit, S& value) {
  visit("joules", value.joules);
  visit("covered_seconds", value.covered_seconds);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, MachineEnergy>
void Fields(V& visit, S& value) {
  visit("machine", value.machine);
  visit("kind", value.kind);
  visit("energy", value.energy);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, SwitchEnergy>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("joules", value.joules);
  visit("share", value.share);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, EnergyFigures>
void Fields(V& visit, S& value) {
  visit("machines", value.machines);
  visit("switches", value.switches);
  visit("joules", value.joules);
  visit("tokens_per_joule", value.tokens_per_joule);
  visit("tokens_per_joule_with_network", value.tokens_per_joule_with_network);
}

}  // namespace poolmark::stats
