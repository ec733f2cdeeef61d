// From YAML text to structs: every error of a file at once, with line and column, unknown keys with a
// suggestion. Pure but for `Files`, which the caller gives. Thread-safe.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/spec/job.h"

namespace poolmark::spec {

// Gives the content of a file that a spec names: a path as written there, or a bare name of the
// installed catalogue (deploy/stacks, deploy/slo). Errors become errors of the spec.
using Files = std::function<Result<std::string>(const std::string& name)>;

// Names that the installed catalogue knows (deploy/slo, deploy/catalogue); an empty list: not checked.
struct Names {
  std::vector<std::string> presets;
  std::vector<std::string> dialects;
};

// `where` leads all errors: the file's name as the user wrote it.
Result<PoolSpec> ReadPool(std::string_view yaml, const std::string& where, Errors* errors);
Result<StackSpec> ReadStack(std::string_view yaml, const std::string& where, Errors* errors,
                            const Names& names = {});
// Reads the job, its pool and its stacks, applies `set` ("<as>.<param>" or "<param>" for all), and checks
// everything that can be checked without machines. On any error: INVALID_ARGUMENT, and `errors` has them all.
Result<JobSpec> ReadJob(std::string_view yaml, const std::string& where, const Files& files,
                        const std::map<std::string, std::string>& set, Errors* errors,
                        const Names& names = {});
// The files that a job names and that are no catalogue names: pool, stacks, workload files; for uploads.
Result<std::vector<std::string>> FilesOf(std::string_view job_yaml, const std::string& where);

}  // namespace poolmark::spec
