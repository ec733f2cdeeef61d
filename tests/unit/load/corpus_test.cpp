// The fuzz targets' seeds in every build: whole answers read alike at every split point, and the readers of
// events agree.
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/http/openai.h"
#include "tests/support/shared_data.h"
#include "tests/unit/load/replay.h"

namespace poolmark::load::test {
namespace {

std::vector<std::string> Corpus(const std::string& target) {
  const std::string directory = poolmark::test::Source("tests/fuzz/corpus/" + target);
  std::vector<std::string> inputs;
  const auto names = ListDir(directory);
  if (!names.ok()) return inputs;
  for (const std::string& name : *names) inputs.push_back(*ReadFile(directory + "/" + name));
  return inputs;
}

}  // namespace

TEST_CASE("answers of the fuzz corpora read the same at every split point") {
  int inputs = 0;
  for (const std::string target : {"load_stream", "http_response"}) {
    for (const std::string& input : Corpus(target)) {
      const std::string bytes = input.substr(1);  // the first byte is the fuzzer's cut
      const RequestRecord whole = PlayCut(bytes, {});
      for (size_t cut = 0; cut <= bytes.size(); ++cut) CHECK(PlayCut(bytes, {cut}) == whole);
      ++inputs;
    }
  }
  CHECK(inputs >= 4);
}

TEST_CASE("the readers of events agree on the fuzz corpus") {
  int events = 0;
  for (const std::string& input : Corpus("openai_chunk")) {
    http::ChunkReader reader;
    for (size_t from = 0; from <= input.size();) {
      const size_t end = std::min(input.find('\0', from), input.size());
      const std::string event = input.substr(from, end - from);
      from = end + 1;
      std::string text;
      std::string tree_text;
      CHECK(reader.Read(event, &text) == http::ReadChunkWithTree(event, &tree_text));
      CHECK(text == tree_text);
      ++events;
    }
  }
  CHECK(events >= 8);
}

}  // namespace poolmark::load::test
