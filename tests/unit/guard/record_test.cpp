#include "agent/guard/record.h"

#include <catch2/catch.hpp>

#include "common/base/random.h"

using namespace poolmark;
using guard::Decode;
using guard::Encode;
using guard::Record;

TEST_CASE("a record survives its text, whatever the values hold") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  Record record("start");
  record.Add("id", "engine-0").Add("argv", all).Add("argv", "").Add("n", -7);
  std::string text = Encode(record);
  for (char c : text) CHECK((c >= 0x20 && c < 0x7f));
  auto back = Decode(text);
  REQUIRE(back);
  CHECK(*back == record);
  CHECK(back->All("argv") == std::vector<std::string>{all, ""});
  CHECK(back->Signed("n") == -7);
  CHECK_FALSE(back->Unsigned("n"));
  CHECK_FALSE(back->Signed("id"));
  CHECK(back->Get("absent").empty());
}

TEST_CASE("malformed records are refused") {
  auto text = GENERATE(as<std::string>{}, "", " ", "Start", "start  a=b", "start a", "start =b", "start A=b",
                       "start a=%", "start a=%4", "start a=%zz", "start a=b\n", "start a=\x80", "start\ta=b",
                       "st art", std::string("st\0rt", 5));
  INFO(text);
  CHECK_FALSE(Decode(text));
}

TEST_CASE("random bytes never crash the decoder") {
  SplitMix64 random(7);
  const std::string base = Encode(Record("start").Add("id", "x y").Add("env", "A=%"));
  for (int round = 0; round < 20000; ++round) {
    std::string text = base;
    for (int flips = 0; flips < 3; ++flips)
      text[random.Below(text.size())] = static_cast<char>(random.Below(256));
    text.resize(random.Below(text.size() + 1));
    if (auto record = Decode(text)) CHECK(Decode(Encode(*record)) == record);
  }
}
