// With what the programs of a stack were started, for comparing two jobs: without what each job chooses anew
// (addresses, ports, its own name and directories) and without secrets. Internal to this directory; pure.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/results/manifest_file.h"

namespace poolmark::report {

// One program's words: a flag and its value are one. Those that may differ are left out or replaced by
// ADDRESS, PORT and JOB.
std::set<std::string> WordsThatCount(const std::vector<std::string>& argv, std::string_view job_id,
                                     std::string_view stack);

// Of every program of a stack by its role ("engine"), all machines together.
std::map<std::string, std::set<std::string>> CommandLines(const results::ManifestFile& manifest,
                                                          const std::string& stack, std::string_view job_id);

}  // namespace poolmark::report
