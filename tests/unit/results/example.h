// A small results directory of our own making, for the tests of results and report.
#pragma once
#include <string>
#include <vector>

#include "common/results/directory.h"

namespace poolmark::test {

results::JobFile ExampleJob();
results::PlanFile ExamplePlan();
results::ManifestFile ExampleManifest();
results::RepeatFile ExampleRepeat(const std::string& stack, int repeat);
std::vector<results::RepeatFile> ExampleRepeats();  // base and cand, three each
std::vector<stats::RequestFacts> ExampleRequests(const std::string& stack, int repeat);
// Lines of requests.jsonl.zst for the same requests.
std::string ExampleRecords(const std::string& stack, int repeat);
// Writes everything but report.html and SHA256SUMS.
void WriteExample(const std::string& directory);

}  // namespace poolmark::test
