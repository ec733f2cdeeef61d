#include "common/tokenizer/config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"

namespace poolmark::tokenizer {
namespace {

Status CheckText(const Json& entry, const char* key, const std::string& entry_name,
                 const std::string& where) {
  if (!entry.contains(key))
    return InvalidInput(where, absl::StrCat("'", entry_name, "' has no '", key, "'"), kEndpointHint);
  if (entry[key].is_string()) return absl::OkStatus();
  return InvalidInput(
      where, absl::StrCat("'", entry_name, ".", key, "' is ", entry[key].type_name(), ", a text is needed"),
      kEndpointHint);
}

Result<std::string> TemplateIn(const Json& config, const std::string& where) {
  if (!config.contains("chat_template")) return NotFound(where, "has no chat_template", kEndpointHint);
  const Json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  const std::string* standard = nullptr;
  for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
    const Json& entry = value[i];
    const std::string name = absl::StrCat("chat_template[", i, "]");
    if (!entry.is_object()) {
      return InvalidInput(where,
                          absl::StrCat("'", name, "' is ", entry.type_name(), ", {name, template} is needed"),
                          kEndpointHint);
    }
    for (const char* key : {"name", "template"}) POOLMARK_RETURN_IF_ERROR(CheckText(entry, key, name, where));
    // Of two the last, as in a Python dict.
    if (entry["name"] == "default") standard = entry["template"].get_ptr<const std::string*>();
  }
  if (standard != nullptr) return *standard;
  return InvalidInput(where, "'chat_template' is neither a text nor a list with one named default",
                      kEndpointHint);
}

// A text or {"content": text}.
std::string SpecialToken(const Json& config, const char* key) {
  if (!config.contains(key)) return "";
  const Json& value = config[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return "";
}

}  // namespace

Result<TokenizerConfig> ReadTokenizerConfig(std::string_view text, const std::string& where,
                                            bool with_template) {
  JsonLimits limits;
  limits.reject_duplicate_keys = false;
  POOLMARK_ASSIGN_OR_RETURN(const Json config, ParseJson(text, where, limits));
  if (!config.is_object()) return InvalidInput(where, "is no JSON object");
  TokenizerConfig out;
  if (with_template) {
    POOLMARK_ASSIGN_OR_RETURN(out.chat_template, TemplateIn(config, where));
  }
  out.bos_token = SpecialToken(config, "bos_token");
  out.eos_token = SpecialToken(config, "eos_token");
  return out;
}

}  // namespace poolmark::tokenizer
