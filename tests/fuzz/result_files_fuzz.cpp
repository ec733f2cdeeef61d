// fuzz: results
// Files of a results directory: any bytes are read or refused; what is read can be written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/load/record_codec.h"
#include "common/results/cycle_files.h"
#include "common/results/job_file.h"
#include "common/results/manifest_file.h"
#include "common/results/repeat_file.h"
#include "common/results/summary_file.h"

namespace {

template <class Decode>
void RoundTrip(std::string_view text, Decode decode) {
  const auto file = decode(text, "fuzz");
  if (!file.ok()) return;
  const auto written = poolmark::results::Encode(*file);
  if (!written.ok() || !decode(*written, "again").ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poolmark::results;
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      RoundTrip(text, DecodeJob);
      break;
    case 1:
      RoundTrip(text, DecodeManifest);
      break;
    case 2:
      RoundTrip(text, DecodeVerify);
      break;
    case 3:
      RoundTrip(text, DecodeTeardown);
      break;
    case 4:
      RoundTrip(text, DecodeRepeat);
      break;
    case 5:
      RoundTrip(text, DecodeSummary);
      break;
    default: {
      // A space before it, which changes nothing in JSON, takes the full parser instead of the fast one.
      const auto fast = poolmark::load::ParseRecord(text, "fuzz:1");
      const auto full = poolmark::load::ParseRecord(" " + std::string(text), "fuzz:1");
      if (fast.ok() != full.ok() || (fast.ok() && !(*fast == *full))) std::abort();
    }
  }
  return 0;
}
