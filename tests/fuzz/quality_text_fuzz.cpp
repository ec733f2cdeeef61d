// fuzz: quality
// Model output, chat streams, metrics pages and arguments.
#include "tests/fuzz/quality_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  poolmark::test::FuzzQualityText(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
