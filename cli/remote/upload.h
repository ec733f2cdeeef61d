// The files of a job: found, digested, sent. A file that the controller has already costs one round trip.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/remote/session.h"
#include "common/base/result.h"

namespace poolmark::cli {

struct LocalInput {
  std::string path;  // as the specs name it
  std::string file;  // where it lies here
  std::string sha256;
  uint64_t size = 0;
};

struct JobFiles {
  std::string job_path;
  std::string name;  // of the job, where known
  std::map<std::string, std::string> set;
  std::vector<LocalInput> inputs;
  Errors missing;                  // files that the job names and that cannot be sent
  std::vector<std::string> lacks;  // their names
};

// The job file and what it names, relative to the job file's directory. Files that are not there are told in
// `missing`: the controller may have more to say about the job.
Result<JobFiles> FilesOfJob(const std::string& job_file);
// What a results directory was submitted with (inputs/inputs.json). Refuses one whose inputs were too big to
// keep.
Result<JobFiles> FilesOfResults(const std::string& directory);

Status Upload(Session& session, const LocalInput& input);

}  // namespace poolmark::cli
