// fuzz: workload
// Lines of public traces and settings of workloads: any bytes give a value or an error that names the line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/json.h"
#include "common/workload/spec.h"
#include "common/workload/trace_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poolmark;
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 6 == 5) {
    if (const auto json = ParseJson(text, "fuzz"); json.ok()) (void)workload::ParseWorkload(*json);
    return 0;
  }
  workload::TraceLineReader reader(static_cast<workload::TraceFormat>(data[0] % 6), "fuzz");
  uint64_t number = 0;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const auto line = reader.Read(text.substr(at, end - at), ++number);
    if (!line.ok() && line.status().message().find("fuzz:") == std::string_view::npos) std::abort();
    at = end + 1;
  }
  return 0;
}
