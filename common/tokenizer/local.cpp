#include "common/tokenizer/local.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#ifdef POOLMARK_HAVE_TOKENIZER
#include "common/tokenizer/config.h"
#include "common/tokenizer/rust/poolmark_tokenizer.h"
#endif

namespace poolmark::tokenizer {
namespace {

std::string DirectoryOf(const std::string& file) {
  const size_t slash = file.find_last_of('/');
  if (slash == file.npos) return ".";
  return slash == 0 ? "/" : file.substr(0, slash);
}

}  // namespace

LocalFiles LocalFilesOf(const std::string& path) {
  const std::string file = path.ends_with(".json") ? path : JoinPath(path, "tokenizer.json");
  return {file, JoinPath(DirectoryOf(file), "tokenizer_config.json")};
}

Status CheckLocalFiles(const std::string& path) {
  const LocalFiles files = LocalFilesOf(path);
  for (const std::string& file : {files.tokenizer, files.config}) {
    if (!FileExists(file))
      return InvalidInput(file, "there is no such file",
                          "name a tokenizer.json that has its tokenizer_config.json beside it, or the "
                          "directory of both");
  }
  return absl::OkStatus();
}

#ifdef POOLMARK_HAVE_TOKENIZER
namespace {

constexpr uint64_t kMaxFile = 512u << 20;

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

  Result<TokenIds> Encode(std::string_view text) override { return Ids(text, false); }
  Result<TokenIds> EncodePrompt(std::string_view text) override { return Ids(text, true); }

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
  Result<TokenIds> Ids(std::string_view text, bool special) {
    std::string valid = ValidUtf8(text);
    uint32_t* ids = nullptr;
    size_t count = 0;
    char* error = nullptr;
    if (pmtok_encode(handle_, valid.data(), valid.size(), special ? 1 : 0, &ids, &count, &error) != 0)
      return InvalidInput(path_, Take(error));
    TokenIds out(ids, ids + count);
    pmtok_free_ids(ids, count);
    return out;
  }

  pmtok_tokenizer* handle_;  // owned
  std::string path_;
};

}  // namespace

bool LocalAvailable() {
  return true;
}

Result<std::unique_ptr<Tokenizer>> OpenLocal(const std::string& path) {
  POOLMARK_RETURN_IF_ERROR(CheckLocalFiles(path));
  const auto [file, config_file] = LocalFilesOf(path);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(file, kMaxFile));
  POOLMARK_ASSIGN_OR_RETURN(std::string config_text, ReadFile(config_file, kMaxFile));
  const std::string own_template = JoinPath(DirectoryOf(file), "chat_template.jinja");
  const bool own = FileExists(own_template);
  POOLMARK_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(config_text, config_file, !own));
  std::string jinja = std::move(config.chat_template);
  if (own) {
    POOLMARK_ASSIGN_OR_RETURN(jinja, ReadFile(own_template, kMaxFile));
  }
  Json globals = {{"bos_token", config.bos_token}, {"eos_token", config.eos_token}};
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
