// The one-pass reader of stream events. It validates all of the document as strictly as the tree reader
// and gives up (which is always allowed) on anything unusual: a known key twice, escapes in keys, counts
// that are no plain integers or too large, error objects, deep nesting, any syntax error.
#include <cstring>

#include "common/http/json_string.h"
#include "common/http/openai.h"

namespace poolmark::http {
namespace {

constexpr int kMaxDepth = 60;

struct Text {
  std::string_view raw;  // between the quotes
  bool escaped = false;
};

class Scanner {
 public:
  explicit Scanner(std::string_view data) : at_(data.data()), end_(data.data() + data.size()) {}

  // The string that starts with the quote at `at`; nothing when it is not valid. For patterns.
  static std::optional<Text> StringAt(std::string_view data, size_t at) {
    Scanner scanner(data.substr(at));
    Text text;
    if (!scanner.String(&text)) return std::nullopt;
    return text;
  }

  // Where the only non-empty string of output lies; nothing when there are none or several. After Scan.
  std::optional<std::string_view> only_output() const {
    return outputs_ == 1 ? std::optional(output_) : std::nullopt;
  }
  bool only_output_is_text() const {
    return output_.data() == content_.data() || output_.data() == plain_text_.data();
  }

  bool Scan(Chunk* chunk, std::string* text) {
    chunk_ = chunk;
    unsigned seen = 0;
    const bool good = Object([&](std::string_view key) {
      if (key == "choices") return Once(&seen, 1) && Choices();
      if (key == "usage") return Once(&seen, 2) && Usage();
      if (key == "error") return Once(&seen, 4) && Literal("null");
      if (key == "object") return Once(&seen, 8) && NotError();
      if (key == "detail" || key == "message") return false;
      return Skip();
    });
    if (!good) return false;
    Space();
    if (at_ != end_) return false;
    chunk->output = chunk->output || chunk->answer;
    if (text != nullptr) {
      AppendDecodedString(plain_text_, text);
      AppendDecodedString(content_, text);
    }
    return true;
  }

 private:
  static bool Once(unsigned* seen, unsigned bit) {
    const bool first = (*seen & bit) == 0;
    *seen |= bit;
    return first;
  }

  void Space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool Is(char c) {
    Space();
    return at_ < end_ && *at_ == c;
  }
  bool Take(char c) {
    if (!Is(c)) return false;
    ++at_;
    return true;
  }
  bool Literal(std::string_view word) {
    Space();
    if (static_cast<size_t>(end_ - at_) < word.size() || std::memcmp(at_, word.data(), word.size()) != 0)
      return false;
    at_ += word.size();
    return true;
  }

  // Calls member(key) with the cursor at each value; member must consume it.
  template <class Member>
  bool Object(Member&& member) {
    if (!Take('{') || ++depth_ > kMaxDepth) return false;
    if (!Take('}')) {
      do {
        Text key;
        if (!String(&key) || key.escaped || !Take(':') || !member(key.raw)) return false;
      } while (Take(','));
      if (!Take('}')) return false;
    }
    --depth_;
    return true;
  }
  template <class Item>
  bool Array(Item&& item) {
    if (!Take('[') || ++depth_ > kMaxDepth) return false;
    if (!Take(']')) {
      do {
        if (!item()) return false;
      } while (Take(','));
      if (!Take(']')) return false;
    }
    --depth_;
    return true;
  }

  bool String(Text* text) {
    if (!Take('"')) return false;
    const char* const start = at_;
    text->escaped = false;
    for (;;) {
      // Eight plain bytes at a time: none of quote, backslash, control or non-ASCII.
      while (end_ - at_ >= 8) {
        uint64_t word;
        std::memcpy(&word, at_, 8);
        constexpr uint64_t kOnes = 0x0101010101010101ull;
        constexpr uint64_t kTops = 0x8080808080808080ull;
        const uint64_t quote = word ^ (kOnes * '"');
        const uint64_t slash = word ^ (kOnes * '\\');
        const uint64_t special =
            ((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash) | (word - kOnes * 0x20) | word;
        if ((special & kTops) != 0) break;
        at_ += 8;
      }
      if (at_ >= end_) return false;
      const unsigned char c = static_cast<unsigned char>(*at_);
      if (c == '"') {
        text->raw = std::string_view(start, static_cast<size_t>(at_ - start));
        ++at_;
        return true;
      }
      if (c == '\\') {
        text->escaped = true;
        if (!Escape()) return false;
      } else if (c < 0x20) {
        return false;
      } else if (c < 0x80) {
        ++at_;
      } else {
        const size_t length = Utf8Length(at_, end_);
        if (length == 0) return false;
        at_ += length;
      }
    }
  }

  bool Escape() {
    if (end_ - at_ < 2) return false;
    const char kind = at_[1];
    if (kind != 'u') {
      at_ += 2;
      return kind == '"' || kind == '\\' || kind == '/' || kind == 'b' || kind == 'f' || kind == 'n' ||
             kind == 'r' || kind == 't';
    }
    if (end_ - at_ < 6) return false;
    const int code = Hex4(at_ + 2);
    if (code < 0 || IsLow(static_cast<unsigned>(code))) return false;
    at_ += 6;
    if (!IsHigh(static_cast<unsigned>(code))) return true;
    if (end_ - at_ < 6 || at_[0] != '\\' || at_[1] != 'u') return false;
    const int low = Hex4(at_ + 2);
    at_ += 6;
    return low >= 0 && IsLow(static_cast<unsigned>(low));
  }

  bool Digits() {
    const char* const start = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != start;
  }
  // Exponents and very long numbers may overflow: left to the tree.
  bool Number() {
    const char* const start = at_;
    if (*at_ == '-') ++at_;
    if (at_ < end_ && *at_ == '0') {
      ++at_;
    } else if (!Digits()) {
      return false;
    }
    if (at_ < end_ && *at_ == '.') {
      ++at_;
      if (!Digits()) return false;
    }
    return (at_ >= end_ || (*at_ != 'e' && *at_ != 'E')) && at_ - start < 40;
  }

  bool Skip() {
    Space();
    if (at_ >= end_) return false;
    switch (*at_) {
      case '"': {
        Text text;
        return String(&text);
      }
      case '{':
        return Object([this](std::string_view) { return Skip(); });
      case '[':
        return Array([this] { return Skip(); });
      case 't':
        return Literal("true");
      case 'f':
        return Literal("false");
      case 'n':
        return Literal("null");
      default:
        return Number();
    }
  }

  bool Count(std::optional<int64_t>* out) {
    Space();
    const char* const start = at_;
    if (Is('n')) return Literal("null");
    if (!Digits() || at_ - start > 18 || (*start == '0' && at_ - start > 1)) return false;
    if (at_ < end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) return false;
    int64_t value = 0;
    for (const char* digit = start; digit < at_; ++digit) value = value * 10 + (*digit - '0');
    if (value > kMostTokens) return false;
    *out = value;
    return true;
  }

  bool NotError() {
    if (!Is('"')) return Skip();
    Text text;
    return String(&text) && !text.escaped && text.raw != "error";
  }

  bool Usage() {
    if (!Is('{')) return Skip();
    unsigned seen = 0;
    return Object([&](std::string_view key) {
      if (key == "prompt_tokens") return Once(&seen, 1) && Count(&chunk_->prompt_tokens);
      if (key == "completion_tokens") return Once(&seen, 2) && Count(&chunk_->completion_tokens);
      if (key == "prompt_tokens_details") return Once(&seen, 4) && Details();
      return Skip();
    });
  }
  bool Details() {
    if (!Is('{')) return Skip();
    unsigned seen = 0;
    return Object([&](std::string_view key) {
      return key == "cached_tokens" ? Once(&seen, 1) && Count(&chunk_->cached_tokens) : Skip();
    });
  }

  bool Choices() {
    if (!Is('[')) return Skip();
    bool first = true;
    return Array([&] {
      const bool is_first = first;
      first = false;
      return Is('{') ? Choice(is_first) : Skip();
    });
  }

  bool Choice(bool first) {
    unsigned seen = 0;
    return Object([&](std::string_view key) {
      if (key == "delta") return Once(&seen, 1) && Delta(first);
      if (key == "text") return Once(&seen, 2) && Output(&chunk_->answer, first ? &plain_text_ : nullptr);
      if (key == "finish_reason") return Once(&seen, 4) && Finish();
      if (key == "token_ids") return Once(&seen, 8) && TokenIds();
      return Skip();
    });
  }

  bool Delta(bool first) {
    if (!Is('{')) return Skip();
    unsigned seen = 0;
    return Object([&](std::string_view key) {
      if (key == "content")
        return Once(&seen, 1) && !Is('[') && Output(&chunk_->answer, first ? &content_ : nullptr);
      if (key == "reasoning_content") return Once(&seen, 2) && Output(&chunk_->output, nullptr);
      if (key == "reasoning") return Once(&seen, 4) && Output(&chunk_->output, nullptr);
      if (key == "refusal") return Once(&seen, 8) && Output(&chunk_->answer, nullptr);
      if (key == "tool_calls") return Once(&seen, 16) && ToolCalls();
      if (key == "function_call") return Once(&seen, 32) && Function();
      return Skip();
    });
  }

  // A string that is output when it is not empty.
  bool Output(bool* flag, std::string_view* raw) {
    if (!Is('"')) return Skip();
    Text text;
    if (!String(&text)) return false;
    if (!text.raw.empty()) {
      *flag = true;
      output_ = text.raw;
      ++outputs_;
    }
    if (raw != nullptr) *raw = text.raw;
    return true;
  }

  bool Finish() {
    if (Is('{')) return false;
    if (!Is('"')) return Skip();
    Text text;
    if (!String(&text) || text.escaped) return false;
    if (text.raw.empty()) return true;
    chunk_->finished = true;
    chunk_->finish_reason.assign(text.raw);
    return true;
  }

  bool TokenIds() {
    if (!Is('[')) return Skip();
    int64_t count = 0;
    if (!Array([&] { return ++count, Skip(); })) return false;
    chunk_->token_ids = chunk_->token_ids.value_or(0) + count;
    return true;
  }

  bool ToolCalls() {
    if (!Is('[')) return Skip();
    return Array([&] {
      if (!Is('{')) return Skip();
      unsigned seen = 0;
      return Object(
          [&](std::string_view key) { return key == "function" ? Once(&seen, 1) && Function() : Skip(); });
    });
  }
  bool Function() {
    if (!Is('{')) return Skip();
    unsigned seen = 0;
    return Object([&](std::string_view key) {
      if (key == "name") return Once(&seen, 1) && Output(&chunk_->answer, nullptr);
      if (key == "arguments") return Once(&seen, 2) && Output(&chunk_->answer, nullptr);
      return Skip();
    });
  }

  const char* at_;
  const char* const end_;
  int depth_ = 0;
  Chunk* chunk_ = nullptr;
  std::string_view plain_text_;
  std::string_view content_;
  std::string_view output_;  // the last non-empty one
  int outputs_ = 0;
};

}  // namespace

std::optional<Chunk> ScanChunk(std::string_view data, std::string* text) {
  Chunk chunk;
  if (data == "[DONE]") {
    chunk.kind = Chunk::Kind::kDone;
    return chunk;
  }
  Scanner scanner(data);
  if (!scanner.Scan(&chunk, text)) return std::nullopt;
  return chunk;
}

bool ChunkReader::FitsPattern(std::string_view data, std::string* text) const {
  const size_t after = pattern_.size() - value_end_;
  if (data.size() <= value_begin_ + after || std::memcmp(data.data(), pattern_.data(), value_begin_) != 0 ||
      std::memcmp(data.data() + data.size() - after, pattern_.data() + value_end_, after) != 0) {
    return false;
  }
  // The string must end exactly where the rest begins, so that nothing else can hide in it.
  const std::optional<Text> value = Scanner::StringAt(data, value_begin_ - 1);
  if (!value.has_value() || value->raw.size() != data.size() - value_begin_ - after) return false;
  if (text != nullptr && is_text_) AppendDecodedString(value->raw, text);
  return true;
}

const Chunk& ChunkReader::Read(std::string_view data, std::string* text) {
  if (has_pattern_ && FitsPattern(data, text)) return pattern_chunk_;
  if (data == "[DONE]") {
    other_ = Chunk();
    other_.kind = Chunk::Kind::kDone;
    return other_;
  }
  Chunk chunk;
  Scanner scanner(data);
  if (!scanner.Scan(&chunk, text)) {
    other_ = ReadChunkWithTree(data, text);
    return other_;
  }
  const std::optional<std::string_view> value = scanner.only_output();
  if (!value.has_value()) {
    other_ = std::move(chunk);
    return other_;
  }
  pattern_.assign(data);
  value_begin_ = static_cast<size_t>(value->data() - data.data());
  value_end_ = value_begin_ + value->size();
  is_text_ = scanner.only_output_is_text();
  pattern_chunk_ = std::move(chunk);
  has_pattern_ = true;
  return pattern_chunk_;
}

}  // namespace poolmark::http
