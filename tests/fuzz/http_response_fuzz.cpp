// HTTP answers: the same body, end and errors for every cut.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/http/response_parser.h"

namespace {

using poolmark::http::ResponseParser;

std::string Play(std::string_view bytes, size_t cut) {
  ResponseParser parser(4096);
  parser.Reset();
  std::string out;
  for (std::string_view in : {bytes.substr(0, cut), bytes.substr(cut)}) {
    for (;;) {
      std::string_view piece;
      const ResponseParser::Step step = parser.Next(&in, &piece);
      if (step == ResponseParser::Step::kNeedMore) break;
      if (step == ResponseParser::Step::kBody) out += piece;
      if (step == ResponseParser::Step::kHead) out += "<" + std::to_string(parser.status()) + ">";
      if (step == ResponseParser::Step::kDone) return out + "<done>";
      if (step == ResponseParser::Step::kError) return out + parser.error();
    }
  }
  return out + (parser.Closed() == ResponseParser::Step::kDone ? "<closed>" : parser.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = bytes.empty() ? 0 : data[0] * bytes.size() / 256;
  if (Play(bytes, 0) != Play(bytes, cut)) std::abort();
  return 0;
}
