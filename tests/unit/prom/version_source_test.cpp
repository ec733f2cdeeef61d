// Versions as programs tell them, in the forms of the catalogue.
#include "common/prom/version_source.h"

#include <catch2/catch.hpp>

#include "common/prom/catalogue.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::prom;

TEST_CASE("an HTTP answer: the field that the catalogue names, else `version`, else the word itself",
          "[F4]") {
  const auto vllm = ParseVersionFrom("GET /version");
  CHECK(vllm.kind == VersionSource::Kind::kHttp);
  CHECK(vllm.target == "/version");
  CHECK(VersionIn(vllm, R"({"version":"0.32.0"})") == "0.32.0");
  CHECK(VersionIn(vllm, R"("0.5.6")") == "0.5.6");
  const auto llama = ParseVersionFrom("GET /props (build_info)");
  CHECK(llama.target == "/props");
  CHECK(VersionIn(llama, R"({"build_info":"b6869-1234abc","version":"no"})") == "b6869-1234abc");
  CHECK(VersionIn(llama, R"({"build_info":"b0-unknown"})").empty());
}

TEST_CASE("INFO of Redis and of Valkey, which tells both", "[F4]") {
  const auto source = ParseVersionFrom("INFO server (valkey_version, redis_version)");
  CHECK(source.kind == VersionSource::Kind::kInfo);
  CHECK(source.target == "server");
  CHECK(VersionIn(source, "# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n") == "7.0.15");
  CHECK(VersionIn(source, "# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.1.1\r\n") == "8.1.1");
  CHECK(VersionIn(source, "# Server\r\nnot_redis_version:1\r\n").empty());
}

TEST_CASE("what only a person can find out is asked nowhere", "[F4]") {
  const auto source = ParseVersionFrom("vllm-router --version");
  CHECK(source.kind == VersionSource::Kind::kByHand);
  CHECK(source.target == "vllm-router --version");
  CHECK(VersionIn(source, R"({"version":"1"})").empty());
}

TEST_CASE("answers that are no version: other types, broken JSON, binary, novels", "[F4]") {
  const auto source = ParseVersionFrom("GET /version");
  for (const std::string& answer :
       {std::string(""), std::string("{"), std::string(R"({"version":7})"), std::string(R"({"other":"1"})"),
        std::string("[]"), std::string("null"), std::string(R"({"version":"\u0000\u001b[31m"})"),
        R"({"version":")" + std::string(5000, '1') + R"("})"}) {
    CAPTURE(answer);
    CHECK(VersionIn(source, answer).empty());
  }
}

TEST_CASE("every dialect of the shipped catalogue says how its version is learnt", "[F4]") {
  auto catalogue = Catalogue::Load(test::Source("deploy/catalogue"));
  REQUIRE(catalogue.ok());
  for (const auto& [name, dialect] : catalogue->dialects()) {
    CAPTURE(name);
    const auto source = ParseVersionFrom(dialect.version_from);
    CHECK_FALSE(source.target.empty());
  }
}
