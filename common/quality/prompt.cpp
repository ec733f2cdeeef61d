#include "common/quality/prompt.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/quality/digests.h"
#include "common/workload/tokens.h"

namespace poolmark::quality {
namespace {

constexpr int kAttempts = 12;
constexpr int kVariants = 7;  // of the fillers that repeat a mark
// Fewer single-token words than this would make fillers of different passages alike.
constexpr size_t kFewestWords = 64;

uint64_t SeedOf(int64_t seed, const std::string& text) {
  return std::strtoull(Sha256Hex(absl::StrCat(seed, ":", text), 16).c_str(), nullptr, 16);
}

}  // namespace

std::string SystemText() {
  return "Answer the question at the end from the passages below and from nothing else. You may reason "
         "first. Then give "
         "the shortest complete answer between <answer> and </answer>; both tags are needed. If the passages "
         "do not hold "
         "the answer, say so between the tags.\n\n";
}

std::string PassageText(const std::string& passage) {
  return absl::StrCat("Passage ", PassageId(passage), ":\n", passage, "\n");
}

std::string QuestionText(const std::string& question) {
  // No line end in front: tokenizers join one with the mark or the line end before it, and the last passage
  // would lose its last chunk.
  return absl::StrCat("Question: ", question, "\nReply with the answer as <answer>...</answer>.");
}

Aligner::Aligner(tokenizer::Tokenizer* tokenizer, std::string filler, int64_t chunk_size, int64_t seed,
                 std::string kwargs_json)
    : tokenizer_(tokenizer),
      filler_(std::move(filler)),
      chunk_size_(chunk_size),
      seed_(seed),
      kwargs_json_(std::move(kwargs_json)) {}

Result<std::string> Aligner::Filler(int64_t units, const std::string& seed, int variant) {
  std::string out;
  if (units <= 0) return out;
  if (filler_ == "words") {
    if (words_.empty()) {
      for (const std::string& word : workload::PlainWords()) {
        POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds ids, tokenizer_->Encode(" " + word));
        if (ids.size() == 1) words_.push_back(" " + word);
      }
      if (words_.size() < kFewestWords) {
        return Precondition(
            "--filler words",
            absl::StrCat("only ", words_.size(), " plain words are one token each in this tokenizer, ",
                         kFewestWords, " are needed"),
            "use --filler dots or dashes");
      }
    }
    SplitMix64 random(SeedOf(seed_, seed));
    for (int64_t i = 1; i < units; ++i) out += words_[random.Below(words_.size())];
    out += " .";  // a word would grow together with the label of the next passage
  } else {
    // Runs of one mark may merge into longer tokens, or each may be several tokens; other variants put line
    // ends between the marks, or one before them. A mark stands last where that gives whole chunks: chat
    // templates may strip a line end there, or join theirs with it.
    const char* unit = filler_ == "dashes" ? " -" : " .";
    const bool mark_last = variant <= 3;
    if (!mark_last) variant -= 3;
    for (int64_t i = 0; i < units; ++i) {
      bool line_end = variant == 3 ? i == 0 : variant > 0 && i % (variant + 1) == variant;
      if (mark_last && i + 1 == units) line_end = false;
      out += line_end ? "\n" : unit;
    }
  }
  return out;
}

template <class Count>
Result<Block> Aligner::Pad(const std::string& text, const std::string& seed, const Count& count) {
  POOLMARK_ASSIGN_OR_RETURN(int64_t bare, count(text));
  int64_t missing = (chunk_size_ - bare % chunk_size_) % chunk_size_;
  Block best{text, 0, bare};
  if (missing == 0) return best;
  int64_t closest = chunk_size_;
  const int variants = filler_ == "words" ? 1 : kVariants;
  for (int variant = 0; variant < variants; ++variant) {
    int64_t units = missing;
    for (int attempt = 0; attempt < kAttempts && units > 0; ++attempt) {
      POOLMARK_ASSIGN_OR_RETURN(std::string filler, Filler(units, seed, variant));
      POOLMARK_ASSIGN_OR_RETURN(int64_t padded, count(text + filler));
      int64_t off = bare + missing - padded;
      if (std::abs(off) < closest) {
        closest = std::abs(off);
        best = {text + filler, padded - bare, padded};
      }
      if (off == 0) return best;
      // A unit may be several tokens: step by what one cost so far.
      double cost = std::max(1.0, static_cast<double>(padded - bare) / static_cast<double>(units));
      int64_t step = std::llround(static_cast<double>(off) / cost);
      units += step != 0 ? step : off > 0 ? 1 : -1;
    }
  }
  ++misaligned_;
  return best;
}

Result<int64_t> Aligner::HeadTokens(const std::string& content) {
  // Two continuations that differ from their first character share exactly what precedes them.
  POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds one,
                            tokenizer_->EncodeChat({{"user", content + "Passage 0"}}, kwargs_json_));
  POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds two,
                            tokenizer_->EncodeChat({{"user", content + "\u2588 1"}}, kwargs_json_));
  auto differ = std::mismatch(one.begin(), one.end(), two.begin(), two.end());
  return differ.first - one.begin();
}

Result<int64_t> Aligner::TokensBehind(const std::string& text) {
  // Tokenizers may treat the beginning of a text in a way of its own (a mark for the missing space, say), and
  // in a prompt a passage never stands there: so it is counted behind the end of another block.
  if (anchor_.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(std::string filler, Filler(2, "anchor", 0));
    anchor_ = "Passage:\n" + filler;
    POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds ids, tokenizer_->Encode(anchor_));
    anchor_tokens_ = static_cast<int64_t>(ids.size());
  }
  POOLMARK_ASSIGN_OR_RETURN(tokenizer::TokenIds ids, tokenizer_->Encode(anchor_ + text));
  return static_cast<int64_t>(ids.size()) - anchor_tokens_;
}

Result<Block> Aligner::System() {
  if (filler_ == "none") return Block{SystemText(), 0, 0};
  return Pad(SystemText(), "system", [&](const std::string& text) { return HeadTokens(text); });
}

Result<Block> Aligner::Passage(const std::string& passage) {
  auto found = passages_.find(passage);
  if (found != passages_.end()) return found->second;
  Block block{PassageText(passage), 0, 0};
  if (filler_ != "none") {
    POOLMARK_ASSIGN_OR_RETURN(
        block, Pad(block.text, passage, [&](const std::string& text) { return TokensBehind(text); }));
  }
  passages_.emplace(passage, block);
  return block;
}

}  // namespace poolmark::quality
