#include "common/tokenizer/local.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#ifdef POOLMARK_HAVE_TOKENIZER
#include "common/tokenizer/rust/poolmark_tokenizer.h"
#endif

namespace poolmark::tokenizer {

#ifdef POOLMARK_HAVE_TOKENIZER
namespace {

constexpr uint64_t kMaxFile = 512u << 20;
constexpr char kEndpointHint[] = "use the engine's tokenize endpoint";  // it renders as the engine does

// The text that the library gave out, freed.
std::string Take(char* text) {
  std::string out = text == nullptr ? "" : text;
  pmtok_free_text(text);
  return out;
}

class Local final : public Tokenizer {
 public:
  Local(pmtok_tokenizer* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  ~Local() override { pmtok_free(handle_); }
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;

  Result<TokenIds> Encode(std::string_view text) override {
    std::string valid = ValidUtf8(text);
    uint32_t* ids = nullptr;
    size_t count = 0;
    char* error = nullptr;
    if (pmtok_encode(handle_, valid.data(), valid.size(), &ids, &count, &error) != 0)
      return InvalidInput(path_, Take(error));
    TokenIds out(ids, ids + count);
    pmtok_free_ids(ids, count);
    return out;
  }

  Result<TokenIds> EncodeChat(const ChatMessages& messages, const std::string& kwargs_json) override {
    Json list = Json::array();
    for (const auto& [role, content] : messages) list.push_back({{"role", role}, {"content", content}});
    POOLMARK_ASSIGN_OR_RETURN(std::string list_text, DumpJson(list));
    char* rendered = nullptr;
    char* error = nullptr;
    if (pmtok_render(handle_, list_text.data(), list_text.size(), kwargs_json.data(), kwargs_json.size(),
                     &rendered, &error) != 0) {
      return InvalidInput(path_, absl::StrCat("rendering the chat template: ", Take(error)), kEndpointHint);
    }
    return Encode(Take(rendered));
  }

  std::string Description() const override { return "file " + path_; }

 private:
  pmtok_tokenizer* handle_;  // owned
  std::string path_;
};

// chat_template of tokenizer_config.json: a text, or a list of {name, template} with one named "default".
Result<std::string> TemplateIn(const Json& config, const std::string& where) {
  if (!config.contains("chat_template")) return NotFound(where, "has no chat_template", kEndpointHint);
  const Json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const Json& item : value) {
      if (item.is_object() && item.value("name", "") == "default" && item.contains("template") &&
          item["template"].is_string()) {
        return item["template"].get<std::string>();
      }
    }
  }
  return InvalidInput(where, "'chat_template' is neither a text nor a list with one named default");
}

// eos_token and the like: a text or {"content": text}.
std::string SpecialToken(const Json& config, const char* key) {
  if (!config.contains(key)) return "";
  const Json& value = config[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return "";
}

}  // namespace

bool LocalAvailable() {
  return true;
}

Result<std::unique_ptr<Tokenizer>> OpenLocal(const std::string& path) {
  std::string file = path.ends_with(".json") ? path : JoinPath(path, "tokenizer.json");
  std::string directory = file.substr(0, file.find_last_of('/') == file.npos ? 0 : file.find_last_of('/'));
  if (directory.empty()) directory = ".";
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(file, kMaxFile));
  std::string config_file = JoinPath(directory, "tokenizer_config.json");
  POOLMARK_ASSIGN_OR_RETURN(std::string config_text, ReadFile(config_file, kMaxFile));
  JsonLimits limits;
  limits.reject_duplicate_keys = false;
  POOLMARK_ASSIGN_OR_RETURN(Json config, ParseJson(config_text, config_file, limits));
  if (!config.is_object()) return InvalidInput(config_file, "is no JSON object");
  std::string jinja;
  if (std::string own = JoinPath(directory, "chat_template.jinja"); FileExists(own)) {
    POOLMARK_ASSIGN_OR_RETURN(jinja, ReadFile(own, kMaxFile));
  } else {
    POOLMARK_ASSIGN_OR_RETURN(jinja, TemplateIn(config, config_file));
  }
  Json globals = {{"bos_token", SpecialToken(config, "bos_token")},
                  {"eos_token", SpecialToken(config, "eos_token")}};
  POOLMARK_ASSIGN_OR_RETURN(std::string globals_text, DumpJson(globals));
  char* error = nullptr;
  pmtok_tokenizer* handle = pmtok_open(text.data(), text.size(), jinja.data(), jinja.size(),
                                       globals_text.data(), globals_text.size(), &error);
  if (handle == nullptr) return InvalidInput(file, Take(error), kEndpointHint);
  return std::make_unique<Local>(handle, file);
}

#else

bool LocalAvailable() {
  return false;
}

Result<std::unique_ptr<Tokenizer>> OpenLocal(const std::string& path) {
  return Precondition(
      path, "this build has no local tokenizer",
      "build with -DPOOLMARK_TOKENIZER=ON (needs Debian's cargo-web), or use the engine's tokenize endpoint");
}

#endif

}  // namespace poolmark::tokenizer
