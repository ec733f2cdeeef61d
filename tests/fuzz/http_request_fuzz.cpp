// fuzz: http
// Requests in any cut of their bytes: no crash, and the same result however they are cut.
#include <cstdlib>
#include <string>

#include "common/http/request_parser.h"

using poolmark::http::RequestParser;

namespace {

std::string Read(std::string_view bytes, size_t step) {
  std::string result;
  RequestParser parser(4096);
  std::string pending;
  for (size_t at = 0; at < bytes.size(); at += step) {
    pending += bytes.substr(at, step);
    for (bool more = true; more;) {
      pending.erase(0, parser.Feed(pending));
      more = false;
      if (parser.state() == RequestParser::State::kBad)
        return result + "bad" + std::to_string(parser.error_status());
      if (parser.state() == RequestParser::State::kDone) {
        if (parser.request().body.size() > 4096) std::abort();
        result += parser.request().method + "|" + parser.request().path + "|" + parser.request().body + "\n";
        parser.Next();
        more = !pending.empty();
      }
    }
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (Read(bytes, 1) != Read(bytes, size + 1)) std::abort();
  return 0;
}
