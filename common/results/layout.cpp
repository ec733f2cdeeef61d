#include "common/results/layout.h"

namespace poolmark::results {

std::string CycleDir(int cycle) {
  return "cycles/" + std::to_string(cycle);
}
std::string VerifyFile(int cycle) {
  return CycleDir(cycle) + "/verify.json";
}
std::string TeardownFile(int cycle) {
  return CycleDir(cycle) + "/teardown.json";
}
std::string CycleLogs(int cycle) {
  return CycleDir(cycle) + "/logs";
}

std::string QualityDir(std::string_view stack) {
  return std::string(kQualityDir).append("/").append(stack);
}

std::string PointDir(std::string_view stack, std::string_view workload, std::string_view level) {
  std::string path = "points/";
  path.append(stack).append("/").append(workload).append("-").append(level);
  return path;
}

std::string RepeatDir(std::string_view stack, std::string_view workload, std::string_view level, int repeat) {
  return PointDir(stack, workload, level) + "/repeat_" + std::to_string(repeat);
}

std::string SamplesFile(std::string_view machine) {
  std::string path(kSamplesDir);
  path.append("/").append(machine).append(".jsonl.zst");
  return path;
}

}  // namespace poolmark::results
