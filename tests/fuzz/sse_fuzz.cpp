// SSE in two cuts equals SSE in one piece.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/http/sse.h"

namespace {

std::vector<std::string> Parse(std::string_view text, size_t cut) {
  poolmark::http::SseParser parser(1 << 16);
  std::vector<std::string> seen;
  const auto sink = [&seen](const poolmark::http::SseEvent& event) {
    seen.push_back(std::string(event.name) + "\x1f" + std::string(event.data));
  };
  // Copies of their own, so that a view kept too long is found.
  const std::string first(text.substr(0, cut));
  const std::string second(text.substr(cut));
  if (!parser.Feed(first, sink) || !parser.Feed(second, sink)) return seen;
  parser.End(sink);
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > (1 << 15)) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = text.empty() ? 0 : data[0] * text.size() / 256;
  if (Parse(text, 0) != Parse(text, cut)) std::abort();
  return 0;
}
