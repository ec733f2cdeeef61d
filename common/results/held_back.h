// May a test point be published? The manifest held against what its repeats were read through: a machine, an
// engine or a name that the manifest does not have is not recorded, and not in order. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/results/manifest_file.h"
#include "common/results/repeat_file.h"

namespace poolmark::results {

// What holds a result back from publication (methodology, "When a result counts"), a line each; empty:
// nothing. `repeats`: those of one test point, at least one.
std::vector<std::string> HeldBackBy(const ManifestFile& manifest,
                                    const std::vector<const RepeatFile*>& repeats, bool valid,
                                    bool simulated);

}  // namespace poolmark::results
