#include "common/results/job_file.h"

#include <concepts>

#include "common/results/codec.h"
#include "common/results/layout.h"
#include "common/results/schema_parts.h"
#include "common/results/shared_fields.h"

namespace poolmark::results {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, JobStack>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("use", value.use);
  visit("strategy", value.strategy);
  visit("digest", value.digest);
  visit("vendor", value.vendor);
  visit("simulated", value.simulated);
  visit("compression", value.compression);
  visit("path", value.path);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, JobWorkload>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("shape", value.shape);
  visit("options", value.options);
  visit("input", value.input);
  visit("input_sha256", value.input_sha256);
  visit("token_scale", value.token_scale);
  visit("levels", value.levels);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, JobFile>
void Fields(V& visit, S& value) {
  visit("job_id", value.job_id);
  visit("state", value.state);
  visit("teardown", value.teardown);
  visit("reason", value.reason);
  visit("failed_check", value.failed_check);
  visit("submitted", value.submitted);
  visit("started", value.started);
  visit("ended", value.ended);
  visit("submitted_by", value.submitted_by);
  visit("poolmark_version", value.poolmark_version);
  visit("head", value.head);
  visit("stacks", value.stacks);
  visit("baseline", value.baseline);
  visit("workloads", value.workloads);
  visit("repeats", value.repeats);
  visit("starting_state", value.starting_state);
  visit("slo", value.slo);
  visit("slo_limits", value.slo_limits);
  visit("seed", value.seed);
  visit("notes", value.notes);
}

Result<std::string> Encode(const JobFile& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<JobFile> DecodeJob(std::string_view text, std::string_view where) {
  POOLMARK_ASSIGN_OR_RETURN(JobFile file, DecodeFile<JobFile>(text, where, kSchemaVersion));
  if (file.repeats < 0 || file.repeats > kMostRepeats)
    return InvalidInput(std::string(where), "repeats: " + std::to_string(file.repeats) +
                                                " is not between 0 and " + std::to_string(kMostRepeats));
  return file;
}
Json JobSchema() {
  return FileSchema<JobFile>("job.json", kSchemaVersion);
}

}  // namespace poolmark::results
