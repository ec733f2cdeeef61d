#include "agent/sim/tokenizer.h"

#include <catch2/catch.hpp>

#include "agent/sim/answers.h"
#include "common/base/random.h"

using namespace poolmark;
using namespace poolmark::sim;

namespace {

std::vector<Token> Tokens(std::string_view text) {
  std::vector<Token> tokens;
  Encode(text, &tokens);
  return tokens;
}

}  // namespace

TEST_CASE("any text comes back from its tokens") {
  for (std::string text :
       {std::string(), std::string("Hello, world!"), std::string("  two  spaces\n\n\tand tabs "),
        std::string("naïve Zürich 日本語 🎉 “quoted”"), std::string("a\0b\xff\xfe\xc0\x80", 7),
        std::string("<|user|> is text here"), std::string("x\xe2\x80")}) {
    CHECK(Decode(Tokens(text)) == text);
  }
  SplitMix64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (uint64_t i = random.Below(60); i-- > 0;) text.push_back(static_cast<char>(random.Below(256)));
    CHECK(Decode(Tokens(text)) == text);
  }
}

TEST_CASE("words are cut into pieces of four, the space goes with the word") {
  CHECK(Tokens("the").size() == 1);
  CHECK(Tokens(" the cat").size() == 2);
  CHECK(Tokens("internationally").size() == 4);
  CHECK(Tokens(" . . .").size() == 3);
  CHECK(Tokens("a.b").size() == 3);
}

TEST_CASE("counts add up where a text is cut at a space or a line end") {
  std::string a = "The quick brown fox jumps over the lazy dog.";
  std::string b = " Then it sleeps.\nAnd wakes.";
  CHECK(Tokens(a + b).size() == Tokens(a).size() + Tokens(b).size());
  std::vector<Token> whole = Tokens(a + b);
  std::vector<Token> first = Tokens(a);
  CHECK(std::equal(first.begin(), first.end(), whole.begin()));
}

TEST_CASE("plain words are one token each, also when they come back as text") {
  std::vector<Token> words;
  for (int i = 0; i < 500; ++i) words.push_back(PlainWord(42, i));
  CHECK(Tokens(Decode(words)) == words);
}

TEST_CASE("ids that no text gives still read as something") {
  CHECK(Piece(12345) == " t12345");
  CHECK(Piece(kUser) == "<|user|>");
  CHECK(Piece(0x3fffffff).size() == 1);
}
