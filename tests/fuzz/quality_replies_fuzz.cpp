// fuzz: quality workload tokenizer http
// What servers answer to the answer-quality benchmark and to those who count tokens.
#include "tests/fuzz/quality_replies.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  poolmark::test::FuzzQualityReplies(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
