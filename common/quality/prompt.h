// The texts that the arms are sent, and their alignment to cache chunks. The wording is ours: what matters is
// that every arm gets the same bytes and that a passage starts on a chunk boundary wherever it stands, for
// otherwise nothing of it can be reused. Not thread-safe per object.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/quality/types.h"
#include "common/tokenizer/tokenizer.h"

namespace poolmark::quality {

// A piece of a prompt with the filler behind it.
struct Block {
  std::string text;
  int64_t pad_tokens = 0;
  int64_t tokens = 0;  // with the padding; 0: not counted (filler none)
};

// What precedes the passages, and what follows them.
std::string SystemText();
std::string QuestionText(const std::string& question);
// "Passage <id>:\n<text>\n".
std::string PassageText(const std::string& passage);

class Aligner {
 public:
  // `filler`: dots, dashes, words, none. `kwargs_json` goes to the chat template.
  Aligner(tokenizer::Tokenizer* tokenizer, std::string filler, int64_t chunk_size, int64_t seed,
          std::string kwargs_json);

  // The system text, padded so that the template's head and it are whole chunks.
  Result<Block> System();
  // One passage, padded to whole chunks; equal passages give equal blocks (and are asked for once).
  Result<Block> Passage(const std::string& passage);

  // Blocks that could not be brought to a boundary; their reuse will be partial.
  int misaligned() const { return misaligned_; }

 private:
  // Adds filler to `text` until count(text) is a multiple of the chunk size.
  template <class Count>
  Result<Block> Pad(const std::string& text, const std::string& seed, const Count& count);
  Result<std::string> Filler(int64_t units, const std::string& seed, int variant);
  // The tokens of a text behind another block.
  Result<int64_t> TokensBehind(const std::string& text);
  // The chat's tokens that precede whatever follows `content`.
  Result<int64_t> HeadTokens(const std::string& content);

  tokenizer::Tokenizer* tokenizer_;
  std::string filler_;
  int64_t chunk_size_;
  int64_t seed_;
  std::string kwargs_json_;
  std::vector<std::string> words_;  // single tokens, found on first use of the words filler
  std::map<std::string, Block> passages_;
  std::string anchor_;
  int64_t anchor_tokens_ = 0;
  int misaligned_ = 0;
};

}  // namespace poolmark::quality
