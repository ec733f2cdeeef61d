// inputs/inputs.json: what a job was submitted with, so that `poolmark submit --from DIR` can submit it
// again. Plain values.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace poolmark::results {

inline constexpr std::string_view kInputsFile = "inputs/inputs.json";

struct JobInputFile {
  std::string path;  // as the specs name it
  std::string sha256;
  uint64_t size = 0;
  std::string stored;  // relative to the results directory, "inputs/9f86d081-pool.yaml"; "" : too big to keep
};

struct InputsFile {
  std::string job_path;  // the input that is the job file
  std::string name;      // of the job
  std::map<std::string, std::string> set;
  std::vector<JobInputFile> inputs;
};

Result<std::string> Encode(const InputsFile& file);
Result<InputsFile> DecodeInputs(std::string_view text, std::string_view where);

}  // namespace poolmark::results
