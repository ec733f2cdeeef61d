// What one event of an OpenAI-compatible stream says (chat and plain completions; vLLM, SGLang,
// llama.cpp, TensorRT-LLM). Two readers with equal results: ReadChunkWithTree builds the JSON tree and is
// the definition; ReadChunk finds the same fields in one pass without allocating and falls back to the
// tree where a document is unusual. Pure and thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace poolmark::http {

// More than any context or answer holds. A count above it is taken for none, so that sums and 32-bit figures
// of requests cannot overflow, whatever a server says.
inline constexpr int64_t kMostTokens = 1'000'000'000;

struct Chunk {
  enum class Kind : uint8_t {
    kData,
    kDone,       // [DONE]
    kError,      // an error object; `error` holds its text
    kMalformed,  // no JSON object
  };
  Kind kind = Kind::kData;
  bool output = false;  // content, text, refusal, reasoning or a tool call that is not empty, in any choice
  bool answer = false;  // the same without reasoning
  bool absurd_count = false;                 // usage has a count above kMostTokens
  bool finished = false;                     // some choice has a finish_reason
  std::optional<int64_t> prompt_tokens;      // usage.prompt_tokens
  std::optional<int64_t> completion_tokens;  // usage.completion_tokens
  std::optional<int64_t> cached_tokens;      // usage.prompt_tokens_details.cached_tokens
  std::optional<int64_t>
      token_ids;              // how many ids `token_ids` of the choices hold, where an engine sends them
  std::string finish_reason;  // of the last choice that has one
  std::string error;
  bool operator==(const Chunk&) const = default;
};

// `data` of one event. `text`, when given, receives the decoded content or text of the first choice,
// appended.
Chunk ReadChunk(std::string_view data, std::string* text = nullptr);
Chunk ReadChunkWithTree(std::string_view data, std::string* text = nullptr);

// Reads the events of one stream. Most events of a stream differ from the one before only in one string of
// output; such an event is recognised by its equal beginning and end and read without parsing it again.
// Equal to ReadChunk for every event. Not thread-safe.
class ChunkReader {
 public:
  // The reference is valid until the next call.
  const Chunk& Read(std::string_view data, std::string* text = nullptr);
  void Reset() { has_pattern_ = false; }

 private:
  bool FitsPattern(std::string_view data, std::string* text) const;

  bool has_pattern_ = false;
  bool is_text_ = false;    // the varying string belongs to the text of the first choice
  std::string pattern_;     // a document with exactly one non-empty string of output …
  size_t value_begin_ = 0;  // … whose value lies here, without its quotes
  size_t value_end_ = 0;
  Chunk pattern_chunk_;
  Chunk other_;
};

// The one-pass reader alone: nothing when it leaves the document to the tree. For tests.
std::optional<Chunk> ScanChunk(std::string_view data, std::string* text);

// Text of an error object as engines write it: {"message": …, "type": …, "code": …} or a string.
std::string ErrorText(std::string_view json);

}  // namespace poolmark::http
