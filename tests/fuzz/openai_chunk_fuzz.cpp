// The readers of stream events agree: one pass, pattern of the event before, and JSON tree. The input is
// cut into events at NUL bytes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/http/openai.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(bytes), size);
  poolmark::http::ChunkReader reader;
  for (int i = 0; i < 16 && !rest.empty(); ++i) {
    const size_t end = rest.find('\0');
    const std::string event(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    std::string tree_text;
    std::string read_text;
    std::string scan_text;
    const poolmark::http::Chunk tree = poolmark::http::ReadChunkWithTree(event, &tree_text);
    const poolmark::http::Chunk read = reader.Read(event, &read_text);
    if (!(read == tree) || read_text != tree_text) std::abort();
    if (const auto scan = poolmark::http::ScanChunk(event, &scan_text); scan.has_value()) {
      if (!(*scan == tree) || scan_text != tree_text) std::abort();
    } else if (!scan_text.empty()) {
      std::abort();
    }
  }
  return 0;
}
