// Configurations that one valid, publishable job has validated (decision M25): stack digest, versions of
// engine, cache and router, vendor. Kept beside the store in validated.jsonl, one JSON object a line; a
// configuration stays when its job is deleted. Reading and writing are safe from several threads.
#pragma once
#include <string>
#include <vector>

#include "common/results/job_file.h"
#include "common/results/manifest_file.h"
#include "common/results/summary_file.h"

namespace poolmark::controller {

inline constexpr char kValidatedFile[] = "validated.jsonl";

struct ValidatedConfiguration {
  std::string stack;   // as the job named it
  std::string digest;  // of the definition with its parameters
  std::string vendor;
  std::vector<std::string> components;  // "llama-cpp 2026.10.11549", each once
  std::string job_id;
  std::string date;  // the job's end, RFC 3339

  // The same thing was measured, whichever job did it.
  bool SameAs(const ValidatedConfiguration& other) const {
    return digest == other.digest && vendor == other.vendor && components == other.components;
  }
};

// What this job validates: stacks whose every point is valid and publishable, of a job that succeeded. Pure.
std::vector<ValidatedConfiguration> ConfigurationsOf(const results::JobFile& job,
                                                     const results::ManifestFile& manifest,
                                                     const results::SummaryFile& summary);

// An absent file is empty; a line that cannot be read is left out.
Result<std::vector<ValidatedConfiguration>> ReadValidated(const std::string& path);
// Appends those that are not there yet.
Status AddValidated(const std::string& path, const std::vector<ValidatedConfiguration>& found);

}  // namespace poolmark::controller
