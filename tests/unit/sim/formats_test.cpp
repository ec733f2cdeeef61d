// Blocks, Redis replies, faults, requests: what comes from outside, good and hostile.
#include <catch2/catch.hpp>

#include "agent/sim/api.h"
#include "agent/sim/faults.h"
#include "agent/sim/kv_format.h"
#include "agent/sim/resp.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::sim;

TEST_CASE("a block is only good for its format, its hash and its bytes") {
  KvFormat format;
  std::string bytes = EncodeBlock(format, 42, 1000);
  CHECK(CheckBlock(bytes, format, 42, 1000) == BlockCheck::kOk);
  CHECK(CheckBlock(bytes, format, 43, 1000) == BlockCheck::kOtherBlock);
  CHECK(CheckBlock(bytes, format, 42, 999) == BlockCheck::kOtherFormat);
  for (auto change : {+[](KvFormat* f) { f->model = "other"; }, +[](KvFormat* f) { f->dtype = "float16"; },
                      +[](KvFormat* f) { f->kv_dtype = "fp8"; }, +[](KvFormat* f) { f->block_tokens = 32; },
                      +[](KvFormat* f) { f->layers = 1; }, +[](KvFormat* f) { f->heads = 1; },
                      +[](KvFormat* f) { f->hash_seed = 1; }}) {
    KvFormat other;
    change(&other);
    CHECK(CheckBlock(bytes, other, 42, 1000) == BlockCheck::kOtherFormat);
  }
  SplitMix64 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    size_t at = random.Below(damaged.size());
    if (at >= 12 && at < 16) continue;  // reserved bytes of the header
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random.Below(255)));
    CHECK(CheckBlock(damaged, format, 42, 1000) != BlockCheck::kOk);
    CHECK(CheckBlock(std::string_view(bytes).substr(0, random.Below(bytes.size())), format, 42, 1000) !=
          BlockCheck::kOk);
  }
  BlockHash hash = 0;
  CHECK(ParseHashName(HashName(0xabcdef), &hash));
  CHECK(hash == 0xabcdef);
  CHECK_FALSE(ParseHashName("00000000000000zz", &hash));
  CHECK_FALSE(ParseHashName("abc", &hash));
}

TEST_CASE("Redis replies of every kind are read, in any cut") {
  const std::string text =
      "+OK\r\n:-7\r\n$5\r\nhe\r\no\r\n$-1\r\n*2\r\n$1\r\na\r\n*1\r\n:1\r\n-ERR no\r\n*-1\r\n$0\r\n\r\n";
  std::vector<RespValue> values;
  std::string pending;
  for (char c : text) {
    pending.push_back(c);
    RespValue value;
    auto used = ParseResp(pending, &value);
    REQUIRE(used.ok());
    if (*used > 0) {
      pending.erase(0, *used);
      values.push_back(value);
    }
  }
  REQUIRE(values.size() == 8);
  CHECK(values[1].integer == -7);
  CHECK(values[2].text == "he\r\no");
  CHECK(values[3].kind == RespValue::Kind::kNil);
  CHECK(values[4].items[1].items[0].integer == 1);
  CHECK(values[5].kind == RespValue::Kind::kError);
  CHECK(values[7].kind == RespValue::Kind::kBulk);
}

TEST_CASE("bytes that are no RESP, or bombs of it, are errors") {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "*1\r\n";
  for (const std::string& bad :
       {std::string("HTTP/1.1 400 Bad\r\n"), std::string("$99999999999\r\n"), std::string("*99999999\r\n"),
        std::string("$abc\r\n"), std::string("$2\r\nabcd"), std::string(":1x\r\n"), std::string("$-2\r\n"),
        deep, std::string(70000, '+')}) {
    RespValue value;
    CHECK_FALSE(ParseResp(bad, &value).ok());
  }
}

TEST_CASE("faults are read with their keys, and refused with the names that exist") {
  auto fault = ParseFault("error-inside:after_tokens=5,rate=0.5");
  REQUIRE(fault.ok());
  CHECK(fault->Number("after_tokens", 0) == 5);
  CHECK(fault->IsOfRequest());
  CHECK(ParseFault("crash:after=2s,signal=9")->Duration("after") == std::chrono::seconds(2));
  CHECK(ParseFault(fault->ToString()).ok());
  for (const char* bad : {"", "boom", "crash:later=1", "stall:for=soon", "truncate:rate=2", "slow:factor=-1",
                          "slow:factor=x", "slow:factor", "reset:after_tokens=nan"}) {
    CAPTURE(bad);
    auto refused = ParseFault(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(std::string(refused.status().message()).size() > 20);
  }
}

TEST_CASE("the simulator's page describes every fault") {
  auto page = ReadFile(test::Source("docs/simulator.md"));
  REQUIRE(page.ok());
  for (const std::string& kind : FaultKinds()) {
    CAPTURE(kind);
    CHECK(page->find("`" + kind + "`") != std::string::npos);
  }
}

TEST_CASE("count, after_requests and only choose the requests that a fault hits") {
  FaultBox box(1);
  box.Add(*ParseFault("reset:count=2,after_requests=1"));
  box.Add(*ParseFault("error-before:only=store"));
  std::vector<size_t> hits;
  for (int i = 0; i < 4; ++i) hits.push_back(box.ForRequest(false).size());
  CHECK(hits == std::vector<size_t>{0, 1, 1, 0});
  CHECK(box.ForRequest(true).size() == 1);
  box.Add(*ParseFault("truncate:rate=0.25"));
  int hit = 0;
  for (int i = 0; i < 4000; ++i) hit += static_cast<int>(box.ForRequest(false).size());
  CHECK(hit > 850);
  CHECK(hit < 1150);
}

TEST_CASE("requests are read as vLLM reads them, wrong ones get an API error") {
  GenerateRequest request;
  CHECK_FALSE(ParseGenerate(R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},
      {"role":"assistant","content":null,"tool_calls":[]}],"max_completion_tokens":7,"stream":true,
      "stream_options":{"include_usage":true},"temperature":0,"unknown":1})",
                            true, &request));
  CHECK(request.max_tokens == 7);
  CHECK(request.include_usage);
  CHECK(request.prompt.size() == 1 + 3 + 2 + 1);
  GenerateRequest ids;
  CHECK_FALSE(ParseGenerate(R"({"prompt":[[1,2,3]]})", false, &ids));
  CHECK(ids.prompt == std::vector<Token>{1, 2, 3});

  for (const char* bad :
       {"", "[]", "{\"messages\":[]}", R"({"messages":"x"})", R"({"messages":[{"content":"x"}]})",
        R"({"messages":[{"role":"user","content":5}]})",
        R"({"messages":[{"role":"user","content":"x"}],"max_tokens":0})",
        R"({"messages":[{"role":"user","content":"x"}],"max_tokens":"9"})",
        R"({"messages":[{"role":"user","content":"x"}],"n":2})",
        R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
        R"({"messages":[{"role":"user","content":"\ud800"}]})",
        R"({"messages":[{"role":"user","content":"x"}],"kv_transfer_params":7})"}) {
    CAPTURE(bad);
    GenerateRequest refused;
    auto error = ParseGenerate(bad, true, &refused);
    REQUIRE(error);
    CHECK(error->status == 400);
    CHECK(error->ToJson().find("\"message\":") != std::string::npos);
  }
  for (const char* bad : {R"({"prompt":[]})", R"({"prompt":[-1]})", R"({"prompt":[1.5]})", R"({"prompt":{}})",
                          R"({"prompt":[18446744073709551615]})", R"({"prompt":""})"}) {
    CAPTURE(bad);
    GenerateRequest refused;
    CHECK(ParseGenerate(bad, false, &refused));
  }
}

TEST_CASE("texts stay valid JSON whatever bytes they have") {
  std::string out;
  AppendJsonString(std::string_view("a\"\\\n\x01\xff\xc3\xa9", 8), &out);
  CHECK(out == "\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd\xc3\xa9\"");
}
