#include "common/quality/chat_stream.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/json_repair.h"

namespace poolmark::quality {
namespace {

// A chunk may carry escaped lone surrogates, which Python writes and strict JSON refuses.
Result<Json> ParseChunk(std::string_view text) {
  JsonLimits limits;
  limits.reject_duplicate_keys = false;
  Result<Json> parsed = ParseJson(text, "stream", limits);
  if (parsed.ok()) return parsed;
  std::string repaired = RepairJson(text);
  return repaired == text ? parsed : ParseJson(repaired, "stream", limits);
}

// More is no count of tokens: the chunks are counted then.
constexpr uint64_t kMostOutput = 1'000'000'000;

// delta.content if not empty, else the reasoning under either of its names.
const std::string* TextOf(const Json& chunk) {
  if (!chunk.contains("choices") || !chunk["choices"].is_array() || chunk["choices"].empty()) return nullptr;
  const Json& choice = chunk["choices"][0];
  if (!choice.is_object() || !choice.contains("delta") || !choice["delta"].is_object()) return nullptr;
  for (const char* key : {"content", "reasoning_content", "reasoning"}) {
    auto found = choice["delta"].find(key);
    if (found == choice["delta"].end() || !found->is_string()) continue;
    const auto& text = found->get_ref<const std::string&>();
    if (!text.empty()) return &text;
  }
  return nullptr;
}

}  // namespace

bool ChatStream::Feed(std::string_view piece, Nanoseconds now) {
  now_ = now;
  if (done_ || failed()) return false;
  if (!events_.Feed(piece, [this](const http::SseEvent& event) { Event(event); })) {
    error_ = absl::StrCat("an event of more than ", kMaxEvent, " bytes");
  }
  return !done_ && !failed();
}

void ChatStream::End() {
  if (done_ || failed()) return;
  events_.End([this](const http::SseEvent& event) { Event(event); });
}

void ChatStream::Event(const http::SseEvent& event) {
  if (done_ || failed()) return;
  if (event.name == "error") {
    error_ = absl::StrCat("the engine reported ",
                          ValidUtf8((event.data.empty() ? event.comment : event.data).substr(0, 300)));
  } else if (event.data == "[DONE]") {
    done_ = true;
  } else if (!event.data.empty()) {
    Chunk(event.data);
  }
}

void ChatStream::Chunk(std::string_view json) {
  Result<Json> chunk = ParseChunk(json);
  if (!chunk.ok() || !chunk->is_object()) {
    error_ = absl::StrCat("a chunk is no JSON object: ", ValidUtf8(json.substr(0, 120)));
    return;
  }
  if (chunk->contains("error") && !(*chunk)["error"].is_null()) {
    error_ =
        absl::StrCat("the engine reported ", DumpJson((*chunk)["error"]).value_or("an error").substr(0, 300));
    return;
  }
  if (!first_chunk_) first_chunk_ = now_;
  if (const std::string* text = TextOf(*chunk)) {
    if (!first_text_) first_text_ = now_;
    ++text_chunks_;
    text_ += *text;
    if (text_.size() > kMaxText) error_ = absl::StrCat("more than ", kMaxText, " bytes of text");
  }
  if (auto usage = chunk->find("usage"); usage != chunk->end() && usage->is_object()) {
    auto tokens = usage->find("completion_tokens");
    if (tokens != usage->end() && tokens->is_number_unsigned() && tokens->get<uint64_t>() <= kMostOutput) {
      completion_tokens_ = tokens->get<int64_t>();
    }
  }
}

std::optional<Nanoseconds> ChatStream::first_output() const {
  if (first_text_) return first_text_;
  return completion_tokens_ > 0 ? first_chunk_ : std::nullopt;
}

}  // namespace poolmark::quality
