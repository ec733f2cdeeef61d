// What a tokenizer_config.json tells: the chat template and the special tokens that templates write. Needs no
// Rust, so that every build reads it the same way. Pure, thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark::tokenizer {

// What helps where a template cannot be rendered here: the endpoint renders it as the engine does.
inline constexpr char kEndpointHint[] = "use the engine's tokenize endpoint";

struct TokenizerConfig {
  std::string chat_template;  // "" when it was not asked for
  std::string bos_token;      // "" when there is none
  std::string eos_token;
};

// The file's text; `where` is its path. Without `with_template` (a chat_template.jinja stands beside it) the
// file's own template is not looked at. A template is a text, or a list of {name, template} with one named
// "default"; an entry that is not so is refused by its field, as transformers refuses it.
Result<TokenizerConfig> ReadTokenizerConfig(std::string_view text, const std::string& where,
                                            bool with_template);

}  // namespace poolmark::tokenizer
