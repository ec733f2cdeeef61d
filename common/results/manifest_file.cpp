#include "common/results/manifest_file.h"

#include <concepts>

#include "common/results/codec.h"
#include "common/results/layout.h"
#include "common/results/schema_parts.h"

namespace poolmark::results {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestTool>
void Fields(V& visit, S& value) {
  visit("measure", value.measure);
  visit("name", value.name);
  visit("version", value.version);
  visit("sha256", value.sha256);
  visit("pinned", value.pinned);
  visit("fallback_reason", value.fallback_reason);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestGpu>
void Fields(V& visit, S& value) {
  visit("vendor", value.vendor);
  visit("model", value.model);
  visit("uuid", value.uuid);
  visit("driver", value.driver);
  visit("memory_bytes", value.memory_bytes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestNic>
void Fields(V& visit, S& value) {
  visit("device", value.device);
  visit("driver", value.driver);
  visit("firmware", value.firmware);
  visit("state", value.state);
  visit("speed_mbit", value.speed_mbit);
  visit("mtu", value.mtu);
  visit("rdma", value.rdma);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestMachine>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("address", value.address);
  visit("hostname", value.hostname);
  visit("os", value.os);
  visit("kernel", value.kernel);
  visit("cpu", value.cpu);
  visit("boot_id", value.boot_id);
  visit("agent_version", value.agent_version);
  visit("cores", value.cores);
  visit("memory_bytes", value.memory_bytes);
  visit("gpus", value.gpus);
  visit("nics", value.nics);
  visit("tools", value.tools);
  visit("tools_missing", value.tools_missing);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestEngine>
void Fields(V& visit, S& value) {
  visit("process", value.process);
  visit("stack", value.stack);
  visit("machine", value.machine);
  visit("role", value.role);
  visit("dialect", value.dialect);
  visit("name", value.name);
  visit("version", value.version);
  visit("image", value.image);
  visit("digest", value.digest);
  visit("model", value.model);
  visit("argv", value.argv);
  visit("gpus", value.gpus);
  visit("simulated", value.simulated);
  visit("kv_capacity_tokens", value.kv_capacity_tokens);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestSeries>
void Fields(V& visit, S& value) {
  visit("figure", value.figure);
  visit("dialect", value.dialect);
  visit("version", value.version);
  visit("series", value.series);
  visit("confirmed", value.confirmed);
  visit("evidence", value.evidence);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestSwitchField>
void Fields(V& visit, S& value) {
  visit("figure", value.figure);
  visit("field", value.field);
  visit("confirmed", value.confirmed);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestSwitch>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("address", value.address);
  visit("os", value.os);
  visit("reader", value.reader);
  visit("interval_seconds", value.interval_seconds);
  visit("clock_offset_seconds", value.clock_offset_seconds);
  visit("cabled", value.cabled);
  visit("ignored", value.ignored);
  visit("readable", value.readable);
  visit("found_after_end", value.found_after_end);
  visit("read", value.read);
  visit("problem", value.problem);
  visit("fields", value.fields);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestMeasure>
void Fields(V& visit, S& value) {
  visit("measure", value.measure);
  visit("source", value.source);
  visit("detail", value.detail);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, ManifestFile>
void Fields(V& visit, S& value) {
  visit("job_id", value.job_id);
  visit("controller_version", value.controller_version);
  visit("commit", value.commit);
  visit("machines", value.machines);
  visit("engines", value.engines);
  visit("series", value.series);
  visit("switches", value.switches);
  visit("measures", value.measures);
  visit("notes", value.notes);
}

Result<std::string> Encode(const ManifestFile& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<ManifestFile> DecodeManifest(std::string_view text, std::string_view where) {
  return DecodeFile<ManifestFile>(text, where, kSchemaVersion);
}
Json ManifestSchema() {
  return FileSchema<ManifestFile>("manifest.json", kSchemaVersion);
}

}  // namespace poolmark::results
