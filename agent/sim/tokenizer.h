// The simulated engine's tokenizer: no vocabulary file, same result on every machine, text -> tokens ->
// text is exact for any bytes. A word (with the space before it) is cut into pieces of up to four ASCII
// characters; other characters are a token each. Cutting a text at a space or line end does not change its
// tokens, so counts add up. Pure, thread-safe.
//
// Ids fit in 30 bits: below 16 the special tokens; below 2^28 plain numbers, which only come from prompts
// given as ids (they read as " t<id>"); then packed ASCII, code points, raw bytes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/model/block_hash.h"

namespace poolmark::sim {

using model::Token;

enum SpecialToken : Token {
  kPad = 0,
  kBegin = 1,
  kEnd = 2,  // end of a message
  kSystem = 3,
  kUser = 4,
  kAssistant = 5,
  kTool = 6,
};

// Appends the tokens of `text`.
void Encode(std::string_view text, std::vector<Token>* tokens);
// The bytes of one token; special tokens read as "<|user|>" and so on.
std::string Piece(Token token);
std::string Decode(const std::vector<Token>& tokens);
// Roles that no special token stands for count as kUser.
SpecialToken RoleToken(std::string_view role);

}  // namespace poolmark::sim
