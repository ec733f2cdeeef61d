// fuzz: quality
// Every file of a results directory and every data set, chosen by the first byte.
#include "tests/fuzz/quality_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  poolmark::test::FuzzQualityFile(data[0] % poolmark::test::kQualityFileKinds, text);
  return 0;
}
