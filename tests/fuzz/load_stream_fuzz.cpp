// A whole HTTP answer gives the same record and text in one read and in two, and never anything but a record.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/load/record_codec.h"
#include "common/load/stream.h"

namespace {

struct Played {
  poolmark::load::RequestRecord record;
  std::string answer;
  bool operator==(const Played&) const = default;
};

Played Play(std::string_view bytes, size_t cut) {
  Played played;
  poolmark::load::StreamReader reader;
  reader.Begin(&played.record, &played.answer);
  for (const std::string& piece : {std::string(bytes.substr(0, cut)), std::string(bytes.substr(cut))}) {
    if (!piece.empty() && reader.Feed(piece, 7, 5) == poolmark::load::StreamReader::State::kEnded)
      return played;
  }
  reader.Closed(7, "");
  return played;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = bytes.empty() ? 0 : data[0] * bytes.size() / 256;
  const Played whole = Play(bytes, 0);
  if (!(whole == Play(bytes, cut))) std::abort();
  // What was recorded can be written and read.
  std::string line;
  poolmark::load::AppendRecord(whole.record, &line);
  if (!poolmark::load::ParseRecord(line, "fuzz").ok()) std::abort();
  return 0;
}
