#include "common/http/openai.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/json_repair.h"
#include "common/base/secrets.h"

namespace poolmark::http {
namespace {

constexpr size_t kMaxErrorText = 500;

bool IsText(const Json& parent, const char* key) {
  const auto it = parent.find(key);
  return it != parent.end() && it->is_string() && !it->get_ref<const std::string&>().empty();
}

// A tool call carries output once it names a function or has arguments.
bool IsCall(const Json& function) {
  return function.is_object() && (IsText(function, "name") || IsText(function, "arguments"));
}

bool HasToolCall(const Json& delta) {
  if (const auto it = delta.find("function_call"); it != delta.end() && IsCall(*it)) return true;
  const auto calls = delta.find("tool_calls");
  if (calls == delta.end() || !calls->is_array()) return false;
  for (const Json& call : *calls) {
    if (!call.is_object()) continue;
    if (const auto it = call.find("function"); it != call.end() && IsCall(*it)) return true;
  }
  return false;
}

void ReadCount(const Json& parent, const char* key, std::optional<int64_t>* out, bool* absurd) {
  const auto it = parent.find(key);
  if (it == parent.end() || !it->is_number() || it->is_number_integer() != it->is_number_unsigned()) return;
  // Some engines write counts as floats; a double holds every count up to the bound.
  const double value = it->get<double>();
  if (value > static_cast<double>(kMostTokens)) {
    *absurd = true;
  } else if (value >= 0 && value == std::floor(value)) {
    *out = static_cast<int64_t>(value);
  }
}

// What "error" holds where there is none.
bool IsNothing(const Json& value) {
  return value.is_null() || value == false ||
         (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

// "[DONE]", and what some servers leave at its ends.
bool IsDone(std::string_view data) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = data.find_first_not_of(kBlank);
  return first != std::string_view::npos &&
         data.substr(first, data.find_last_not_of(kBlank) - first + 1) == "[DONE]";
}

// Content as a list of parts, as Mistral writes it: those of text are the answer, those of thinking (lists of
// such parts themselves) are not.
void ReadParts(const Json& parts, Chunk* chunk, std::string* text) {
  for (const Json& part : parts) {
    if (!part.is_object()) continue;
    if (IsText(part, "text")) {
      chunk->answer = true;
      if (text != nullptr) *text += part["text"].get_ref<const std::string&>();
    }
    const auto thinking = part.find("thinking");
    if (thinking == part.end()) continue;
    const bool any = thinking->is_array()
                         ? std::any_of(thinking->begin(), thinking->end(),
                                       [](const Json& one) { return one.is_object() && IsText(one, "text"); })
                         : IsText(part, "thinking");
    if (any) chunk->output = true;
  }
}

// The strict tree, else that of the text with what is only unusual repaired.
Result<Json> ParseEvent(std::string_view data) {
  constexpr JsonLimits kLimits{16u << 20, 64, false};
  auto parsed = ParseJson(data, "", kLimits);
  if (parsed.ok()) return parsed;
  return ParseJson(NullNonFinite(RepairJson(data)), "", kLimits);
}

void ReadUsage(const Json& usage, Chunk* chunk) {
  ReadCount(usage, "prompt_tokens", &chunk->prompt_tokens, &chunk->absurd_count);
  ReadCount(usage, "completion_tokens", &chunk->completion_tokens, &chunk->absurd_count);
  const auto details = usage.find("prompt_tokens_details");
  if (details != usage.end() && details->is_object())
    ReadCount(*details, "cached_tokens", &chunk->cached_tokens, &chunk->absurd_count);
}

void ReadChoice(const Json& choice, bool first, Chunk* chunk, std::string* text) {
  if (!choice.is_object()) return;
  if (IsText(choice, "text")) {
    chunk->answer = true;
    if (first && text != nullptr) *text += choice["text"].get_ref<const std::string&>();
  }
  const auto delta = choice.find("delta");
  if (delta != choice.end() && delta->is_object()) {
    if (IsText(*delta, "content") || IsText(*delta, "refusal") || HasToolCall(*delta)) chunk->answer = true;
    if (IsText(*delta, "reasoning_content") || IsText(*delta, "reasoning")) chunk->output = true;
    if (first && text != nullptr && IsText(*delta, "content"))
      *text += (*delta)["content"].get_ref<const std::string&>();
    if (const auto content = delta->find("content"); content != delta->end() && content->is_array())
      ReadParts(*content, chunk, first ? text : nullptr);
  }
  // SGLang's own form of a reason is an object, {"type": "abort", "message": …}.
  const auto finish = choice.find("finish_reason");
  const bool in_object = finish != choice.end() && finish->is_object();
  if (const Json& holder = in_object ? *finish : choice;
      IsText(holder, in_object ? "type" : "finish_reason")) {
    chunk->finished = true;
    chunk->finish_reason = holder[in_object ? "type" : "finish_reason"].get<std::string>();
  }
  const auto ids = choice.find("token_ids");
  if (ids != choice.end() && ids->is_array()) {
    chunk->token_ids = chunk->token_ids.value_or(0) + static_cast<int64_t>(ids->size());
  }
}

// Secrets go before the cut, which could leave a part of one.
std::string Shortened(std::string text) {
  return ValidUtf8(std::string_view(Redacted(std::move(text))).substr(0, kMaxErrorText));
}

std::string TextOfError(const Json& error) {
  std::string text;
  if (error.is_string()) text = error.get<std::string>();
  if (error.is_object()) {
    if (IsText(error, "message")) text = error["message"].get<std::string>();
    if (IsText(error, "type"))
      text += (text.empty() ? "" : " ") + ("(" + error["type"].get<std::string>() + ")");
  }
  if (text.empty()) text = "an error object without a message";
  return Shortened(std::move(text));
}

Chunk Malformed() {
  Chunk chunk;
  chunk.kind = Chunk::Kind::kMalformed;
  return chunk;
}

}  // namespace

std::string ErrorText(std::string_view json) {
  const auto parsed = ParseJson(json);
  if (!parsed.ok()) return Shortened(std::string(json));
  if (parsed->is_object()) {
    if (const auto it = parsed->find("error"); it != parsed->end()) return TextOfError(*it);
    if (IsText(*parsed, "detail")) return Shortened((*parsed)["detail"].get<std::string>());
  }
  return TextOfError(*parsed);
}

Chunk ReadChunkWithTree(std::string_view data, std::string* text) {
  Chunk chunk;
  if (IsDone(data)) {
    chunk.kind = Chunk::Kind::kDone;
    return chunk;
  }
  const auto parsed = ParseEvent(data);
  if (!parsed.ok() || !parsed->is_object()) return Malformed();
  const Json& root = *parsed;
  const auto error = root.find("error");
  // Beside choices an empty error is a field that an engine always writes.
  if (error != root.end() && !error->is_null() && !(IsNothing(*error) && root.contains("choices"))) {
    chunk.kind = Chunk::Kind::kError;
    chunk.error = TextOfError(*error);
    return chunk;
  }
  if (const auto object = root.find("object");
      object != root.end() && object->is_string() && *object == "error") {
    chunk.kind = Chunk::Kind::kError;
    chunk.error = TextOfError(root);
    return chunk;
  }
  // An error object in the place of the event.
  if (IsText(root, "message") && root.contains("code") && !root.contains("choices")) {
    chunk.kind = Chunk::Kind::kError;
    chunk.error = TextOfError(root);
    return chunk;
  }
  // FastAPI's way to say that something failed.
  if (const auto detail = root.find("detail");
      detail != root.end() && !IsNothing(*detail) && !root.contains("choices")) {
    chunk.kind = Chunk::Kind::kError;
    chunk.error = ErrorText(data);
    return chunk;
  }
  if (const auto usage = root.find("usage"); usage != root.end() && usage->is_object())
    ReadUsage(*usage, &chunk);
  if (const auto choices = root.find("choices"); choices != root.end() && choices->is_array()) {
    for (size_t i = 0; i < choices->size(); ++i) ReadChoice((*choices)[i], i == 0, &chunk, text);
  }
  chunk.output = chunk.output || chunk.answer;
  return chunk;
}

Chunk ReadChunk(std::string_view data, std::string* text) {
  if (auto scanned = ScanChunk(data, text)) return *std::move(scanned);
  return ReadChunkWithTree(data, text);
}

}  // namespace poolmark::http
