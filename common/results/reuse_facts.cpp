#include "common/results/reuse_facts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/load/record_codec.h"
#include "common/workload/measure.h"
#include "common/workload/source.h"

namespace poolmark::results {
namespace {

// The level as the workload's own setting. A rate says only when requests come, and the records know that.
void SetLevel(const std::string& level, Json* options) {
  if (level.size() < 2) return;
  const double value = std::atof(level.c_str() + 1);
  for (const char* key : {"concurrency", "rate", "arrivals", "cv", "speedup"}) options->erase(key);
  if (level[0] == 'c') (*options)["concurrency"] = static_cast<int64_t>(value);
  if (level[0] == 'x') (*options)["speedup"] = value;
}

}  // namespace

std::optional<workload::SentRequest> SentOf(const load::RequestRecord& record) {
  if (record.outcome == load::Outcome::kConnect) return std::nullopt;
  const auto seconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; };
  return workload::SentRequest{record.session, record.turn, seconds(record.latency_start()),
                               seconds(record.end), record.primer};
}

Result<ReuseFacts> MeasureReuse(const WorkloadInput& input, const std::string& requests_path, double from,
                                double to, uint32_t block_tokens) {
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, load::RecordReader::Open(requests_path));
  std::vector<workload::SentRequest> sent;
  load::RequestRecord record;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) break;
    if (const auto request = SentOf(record)) sent.push_back(*request);
  }
  return MeasureReuse(input, std::move(sent), from, to, block_tokens);
}

Result<ReuseFacts> MeasureReuse(const WorkloadInput& input, std::vector<workload::SentRequest> sent,
                                double from, double to, uint32_t block_tokens) {
  POOLMARK_ASSIGN_OR_RETURN(Json options, ParseJson(input.options_json, "workload"));
  if (!options.is_object()) return InvalidInput("workload", "its options are no object");
  if (!input.file.empty()) options["file"] = input.file;
  SetLevel(input.level, &options);
  POOLMARK_ASSIGN_OR_RETURN(const auto spec, workload::ParseWorkload(options));
  POOLMARK_ASSIGN_OR_RETURN(const auto source, workload::OpenWorkload(spec));
  const auto reuse = workload::MeasureReuse(*source, spec, std::move(sent), from, to,
                                            std::max<uint32_t>(1, block_tokens), input.warm_pass);
  if (reuse.unknown_turns > 0)
    return InvalidInput(
        "workload",
        std::to_string(reuse.unknown_turns) + " of the requests name a turn that their session does not have",
        "the records or the workload are not those of this repeat");
  ReuseFacts out;
  out.reusable = reuse.share();
  out.reusable_uncut = reuse.share_uncut();
  out.reusable_lifetime = reuse.share_lifetime();
  out.block_tokens = reuse.block_tokens;
  out.working_set_tokens = static_cast<double>(reuse.working_set_tokens);
  out.curve = reuse.curve;
  out.scope = source->session_scope() ? "session" : "global";
  out.notes = source->notes();
  const uint32_t own = source->natural_block_tokens();
  if (own > 0 && own % std::max<uint32_t>(1, block_tokens) != 0) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "At this token scale the workload's blocks have %u tokens, the engine's %u: what is shared "
                  "inside an engine's block is lost (%.2f %% reusable, %.2f %% uncut).",
                  own, block_tokens, 100 * out.reusable.value_or(0), 100 * out.reusable_uncut.value_or(0));
    out.notes.emplace_back(text);
  }
  return out;
}

ReuseFacts NoReuse(const std::string& reason) {
  ReuseFacts out;
  out.reusable = out.reusable_uncut = out.reusable_lifetime = out.working_set_tokens = NotMeasured{reason};
  return out;
}

}  // namespace poolmark::results
