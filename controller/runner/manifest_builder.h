// manifest.json as a job goes: machines after preflight, engines after a launch, tools and series after a
// repeat. Written at each of these, so that a restart of the controller loses none of it. Used by one thread.
#pragma once
#include <string>

#include "common/results/manifest_file.h"
#include "common/results/repeat_file.h"
#include "controller/steps/step.h"
#include "controller/steps/verify.h"

namespace poolmark::controller {

class ManifestBuilder {
 public:
  // Takes over what an earlier start of the controller wrote.
  ManifestBuilder(const std::string& results_dir, const std::string& job_id, const std::string& catalogue_dir,
                  const std::string& evidence_file = "");
  void Machines(const JobRun& run);
  void Engines(const JobRun& run, const StackPlan& stack, const VerifyEvidence& verified);
  void Repeat(const JobRun& run, const StackPlan& stack, const results::RepeatFile& repeat,
              const VerifyEvidence& verified);
  Status Write() const;
  const results::ManifestFile& file() const { return file_; }

 private:
  void Switches(const JobRun& run);
  void Tools(const JobRun& run);
  std::string path_;
  std::string catalogue_dir_;
  std::string evidence_file_;  // what users confirmed on their own versions
  results::ManifestFile file_;
};

}  // namespace poolmark::controller
