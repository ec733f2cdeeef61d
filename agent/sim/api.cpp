#include "agent/sim/api.h"

#include <nlohmann/json.hpp>

#include "common/base/json.h"

namespace poolmark::sim {
namespace {

// The template of a conversation: every message is tokenized for itself, so a longer conversation keeps
// the tokens of the shorter one.
void EncodeMessage(std::string_view role, std::string_view content, std::vector<Token>* tokens) {
  tokens->push_back(RoleToken(role));
  Encode(content, tokens);
  tokens->push_back(kEnd);
}

ApiError Bad(std::string message, std::string param = "") {
  return {400, "BadRequestError", std::move(message), std::move(param)};
}

std::optional<ApiError> ParseObject(std::string_view body, Json* json) {
  auto parsed = ParseJson(body);
  if (!parsed.ok()) return ApiError{400, "Bad Request", std::string(parsed.status().message()), "body"};
  if (!parsed->is_object()) return Bad("the body is no JSON object", "body");
  *json = std::move(*parsed);
  return std::nullopt;
}

// Text of a message: a string, a list of text parts, or null.
std::optional<ApiError> ContentText(const Json& content, std::string* text) {
  if (content.is_null()) return std::nullopt;
  if (content.is_string()) {
    *text = content.get<std::string>();
    return std::nullopt;
  }
  if (!content.is_array()) return Bad("content is neither text nor a list of parts", "messages");
  for (const Json& part : content) {
    if (part.is_string()) {
      *text += part.get<std::string>();
    } else if (part.is_object() && part.contains("text") && part["text"].is_string()) {
      *text += part["text"].get<std::string>();
    } else {
      return Bad("a part of content is no text; the simulated engine reads text only", "messages");
    }
  }
  return std::nullopt;
}

std::optional<ApiError> EncodeMessages(const Json& json, std::vector<Token>* tokens, std::string* text) {
  const Json& messages = json["messages"];
  if (!messages.is_array() || messages.empty())
    return Bad("messages is no list with at least one message", "messages");
  tokens->push_back(kBegin);
  if (json.contains("tools") && json["tools"].is_array() && !json["tools"].empty()) {
    std::string tools = json["tools"].dump(-1, ' ', false, Json::error_handler_t::replace);
    EncodeMessage("system", tools, tokens);
  }
  for (const Json& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return Bad("a message has no role", "messages");
    }
    std::string content;
    if (message.contains("content")) {
      if (auto error = ContentText(message["content"], &content)) return error;
    }
    if (message.contains("tool_calls") && message["tool_calls"].is_array() &&
        !message["tool_calls"].empty()) {
      content += message["tool_calls"].dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    EncodeMessage(message["role"].get<std::string>(), content, tokens);
    if (text != nullptr) *text += content + "\n";
  }
  bool generation_prompt = true;
  if (json.contains("add_generation_prompt") && json["add_generation_prompt"].is_boolean()) {
    generation_prompt = json["add_generation_prompt"].get<bool>();
  }
  if (generation_prompt) tokens->push_back(kAssistant);
  return std::nullopt;
}

std::optional<ApiError> TakeIds(const Json& list, std::vector<Token>* tokens, std::string_view param) {
  tokens->reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= (int64_t{1} << 30)) {
      return Bad("a token id is no whole number from 0 to 2^30 - 1", std::string(param));
    }
    tokens->push_back(static_cast<Token>(id.get<int64_t>()));
  }
  return std::nullopt;
}

std::optional<ApiError> EncodePrompt(const Json& given, std::vector<Token>* tokens, std::string* text) {
  const Json* prompt = &given;
  // A batch of one is taken as its only prompt.
  if (prompt->is_array() && prompt->size() == 1 && ((*prompt)[0].is_string() || (*prompt)[0].is_array())) {
    prompt = &(*prompt)[0];
  }
  if (prompt->is_string()) {
    if (text != nullptr) *text = prompt->get<std::string>();
    Encode(prompt->get_ref<const std::string&>(), tokens);
    return std::nullopt;
  }
  if (!prompt->is_array()) return Bad("prompt is neither text nor a list of token ids", "prompt");
  return TakeIds(*prompt, tokens, "prompt");
}

std::optional<ApiError> TakeCount(const Json& json, const char* key, std::optional<int64_t>* out) {
  if (!json.contains(key) || json[key].is_null()) return std::nullopt;
  const Json& value = json[key];
  if (!value.is_number_integer() || value.get<int64_t>() < 1) {
    return Bad(
        std::string(key) + " is " + value.dump().substr(0, 40) + ", a whole number of at least 1 is needed",
        key);
  }
  *out = value.get<int64_t>();
  return std::nullopt;
}

bool Flag(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_boolean() && json[key].get<bool>();
}

std::string Text(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
}

int64_t Whole(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : 0;
}

std::optional<ApiError> TakeTransfer(const Json& given, std::optional<TransferParams>* out) {
  if (given.is_null()) return std::nullopt;
  if (!given.is_object()) return Bad("kv_transfer_params is no object", "kv_transfer_params");
  TransferParams params;
  params.do_remote_decode = Flag(given, "do_remote_decode");
  params.do_remote_prefill = Flag(given, "do_remote_prefill");
  params.engine_id = Text(given, "remote_engine_id");
  params.request_id = Text(given, "remote_request_id");
  params.host = Text(given, "remote_host");
  params.num_tokens = Whole(given, "remote_num_tokens");
  int64_t port = Whole(given, "remote_port");
  if (port < 0 || port > 65535) return Bad("remote_port is no port", "kv_transfer_params");
  params.port = static_cast<int>(port);
  *out = std::move(params);
  return std::nullopt;
}

std::string UsageJson(const Usage& usage) {
  return "{\"prompt_tokens\":" + std::to_string(usage.prompt_tokens) +
         ",\"total_tokens\":" + std::to_string(usage.prompt_tokens + usage.completion_tokens) +
         ",\"completion_tokens\":" + std::to_string(usage.completion_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) +
         ",\"created_cache_tokens\":" + std::to_string(usage.created_cache_tokens) +
         ",\"multimodal_tokens\":null}}";
}

std::string EventStart(const ReplyHead& head) {
  std::string out = "data: {\"id\":\"" + head.id + "\",\"object\":\"";
  out += head.chat ? "chat.completion.chunk" : "text_completion";
  out += "\",\"created\":" + std::to_string(head.created) + ",\"model\":";
  AppendJsonString(head.model, &out);
  return out;
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  std::string valid;
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      valid = ValidUtf8(text);
      text = valid;
      break;
    }
  }
  out->push_back('"');
  for (char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char escape[8];
          std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
          *out += escape;
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

std::string ApiError::ToJson() const {
  std::string out = "{\"error\":{\"message\":";
  AppendJsonString(message, &out);
  out += ",\"type\":";
  AppendJsonString(type, &out);
  out += ",\"param\":";
  if (param.empty()) {
    out += "null";
  } else {
    AppendJsonString(param, &out);
  }
  return out + ",\"code\":" + std::to_string(status) + "}}";
}

std::optional<ApiError> ParseGenerate(std::string_view body, bool chat, GenerateRequest* request) {
  Json json;
  if (auto error = ParseObject(body, &json)) return error;
  request->chat = chat;
  request->model = Text(json, "model");
  if (chat) {
    if (!json.contains("messages")) return Bad("messages is missing", "messages");
    if (auto error = EncodeMessages(json, &request->prompt, &request->text)) return error;
  } else {
    if (!json.contains("prompt")) return Bad("prompt is missing", "prompt");
    if (auto error = EncodePrompt(json["prompt"], &request->prompt, &request->text)) return error;
  }
  if (request->prompt.empty()) return Bad("the prompt has no tokens", "prompt");
  if (auto error = TakeCount(json, "max_tokens", &request->max_tokens)) return error;
  if (auto error = TakeCount(json, "max_completion_tokens", &request->max_tokens)) return error;
  if (json.contains("n") && !json["n"].is_null() && json["n"] != 1) {
    return Bad("n is not 1; the simulated engine gives one answer", "n");
  }
  request->stream = Flag(json, "stream");
  request->session = Text(json, "session_id");
  if (request->session.empty()) request->session = Text(json, "user");
  if (json.contains("stream_options") && json["stream_options"].is_object()) {
    request->include_usage = Flag(json["stream_options"], "include_usage");
    request->continuous_usage = Flag(json["stream_options"], "continuous_usage_stats");
  }
  if (json.contains("kv_transfer_params")) {
    if (auto error = TakeTransfer(json["kv_transfer_params"], &request->transfer)) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> ParseTokenize(std::string_view body, std::vector<Token>* tokens, bool* with_strings) {
  Json json;
  if (auto error = ParseObject(body, &json)) return error;
  *with_strings = Flag(json, "return_token_strs");
  if (json.contains("messages")) return EncodeMessages(json, tokens, nullptr);
  if (!json.contains("prompt") || !json["prompt"].is_string())
    return Bad("messages or prompt is needed", "prompt");
  return EncodePrompt(json["prompt"], tokens, nullptr);
}

std::optional<ApiError> ParseDetokenize(std::string_view body, std::vector<Token>* tokens) {
  Json json;
  if (auto error = ParseObject(body, &json)) return error;
  if (!json.contains("tokens") || !json["tokens"].is_array()) return Bad("tokens is no list", "tokens");
  return TakeIds(json["tokens"], tokens, "tokens");
}

std::optional<ApiError> ParseFaultBody(std::string_view body, std::string* text) {
  *text = body;
  if (auto json = ParseJson(body); json.ok()) {
    if (!json->is_object() || Text(*json, "fault").empty()) {
      return Bad("the body is no {\"fault\": \"kind:key=value\"}", "fault");
    }
    *text = Text(*json, "fault");
  }
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return std::nullopt;
}

std::string RoleEvent(const ReplyHead& head) {
  return EventStart(head) +
         ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
         "\"finish_reason\":null}],\"prompt_token_ids\":null,\"prompt_text\":null}\n\n";
}

std::string TextEvent(const ReplyHead& head, std::string_view field, std::string_view text,
                      const Usage* usage) {
  std::string out = EventStart(head) + ",\"choices\":[{\"index\":0,";
  if (head.chat) {
    out.append("\"delta\":{\"").append(field).append("\":");
    AppendJsonString(text, &out);
    out += "},";
  } else {
    out += "\"text\":";
    AppendJsonString(text, &out);
    out += ',';
  }
  out += "\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]";
  if (usage != nullptr) out += ",\"usage\":" + UsageJson(*usage);
  return out + "}\n\n";
}

std::string FinishEvent(const ReplyHead& head, std::string_view reason, const Usage* usage) {
  std::string out = EventStart(head) + ",\"choices\":[{\"index\":0,";
  out += head.chat ? "\"delta\":{\"content\":\"\"}," : "\"text\":\"\",";
  out += "\"logprobs\":null,\"finish_reason\":";
  AppendJsonString(reason, &out);
  out += ",\"stop_reason\":null,\"token_ids\":null}]";
  if (usage != nullptr) out += ",\"usage\":" + UsageJson(*usage);
  return out + "}\n\n";
}

std::string UsageEvent(const ReplyHead& head, const Usage& usage) {
  return EventStart(head) + ",\"choices\":[],\"usage\":" + UsageJson(usage) + "}\n\n";
}

std::string ErrorEvent(const ApiError& error, bool as_error_event) {
  return std::string(as_error_event ? "event: error\n" : "") + "data: " + error.ToJson() + "\n\n";
}

std::string WholeReply(const ReplyHead& head, std::string_view text, std::string_view reasoning,
                       std::string_view finish_reason, const Usage* usage, const TransferParams* transfer,
                       size_t transfer_blocks) {
  std::string out = "{\"id\":\"" + head.id + "\",\"object\":\"";
  out += head.chat ? "chat.completion" : "text_completion";
  out += "\",\"created\":" + std::to_string(head.created) + ",\"model\":";
  AppendJsonString(head.model, &out);
  out += ",\"choices\":[{\"index\":0,";
  if (head.chat) {
    out += "\"message\":{\"role\":\"assistant\",\"content\":";
    AppendJsonString(text, &out);
    out += ",\"refusal\":null,\"reasoning\":";
    if (reasoning.empty()) {
      out += "null";
    } else {
      AppendJsonString(reasoning, &out);
    }
    out += "},";
  } else {
    out += "\"text\":";
    AppendJsonString(std::string(reasoning) + std::string(text), &out);
    out += ',';
  }
  out += "\"logprobs\":null,\"finish_reason\":";
  AppendJsonString(finish_reason, &out);
  out += ",\"stop_reason\":null,\"token_ids\":null}],\"system_fingerprint\":\"poolmark-sim\"";
  if (usage != nullptr) out += ",\"usage\":" + UsageJson(*usage);
  out += ",\"kv_transfer_params\":";
  if (transfer == nullptr) return out + "null}";
  out += "{\"do_remote_prefill\":true,\"do_remote_decode\":false,\"remote_block_ids\":[[";
  for (size_t i = 0; i < transfer_blocks; ++i) out += (i == 0 ? "" : ",") + std::to_string(i + 1);
  out += "]],\"remote_engine_id\":";
  AppendJsonString(transfer->engine_id, &out);
  out += ",\"remote_request_id\":";
  AppendJsonString(transfer->request_id, &out);
  out += ",\"remote_host\":";
  AppendJsonString(transfer->host, &out);
  out += ",\"remote_port\":" + std::to_string(transfer->port) +
         ",\"tp_size\":1,\"remote_num_tokens\":" + std::to_string(transfer->num_tokens) +
         ",\"transfer_mode\":\"pull\"}}";
  return out;
}

std::string ModelsReply(const std::string& model, int64_t created, int64_t max_model_len) {
  std::string name;
  AppendJsonString(model, &name);
  return "{\"object\":\"list\",\"data\":[{\"id\":" + name +
         ",\"object\":\"model\",\"created\":" + std::to_string(created) +
         ",\"owned_by\":\"poolmark-sim (simulated)\",\"root\":" + name +
         ",\"parent\":null,\"max_model_len\":" + std::to_string(max_model_len) + ",\"simulated\":true}]}";
}

std::string TokenizeReply(const std::vector<Token>& tokens, bool with_strings, int64_t max_model_len) {
  std::string out = "{\"count\":" + std::to_string(tokens.size()) +
                    ",\"max_model_len\":" + std::to_string(max_model_len) + ",\"tokens\":[";
  for (size_t i = 0; i < tokens.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(tokens[i]);
  out += "],\"token_strs\":";
  if (!with_strings) return out + "null}";
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(Piece(tokens[i]), &out);
  }
  return out + "]}";
}

std::string DetokenizeReply(const std::vector<Token>& tokens) {
  std::string out = "{\"prompt\":";
  AppendJsonString(Decode(tokens), &out);
  return out + "}";
}

}  // namespace poolmark::sim
