#include "common/workload/tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json.h"

namespace poolmark::workload {
namespace {

// vLLM: {"model", "prompt" | "messages"} -> {"count"}; llama.cpp: {"content"} -> {"tokens": [...]}.
class EngineCounterImpl final : public TokenCounter {
 public:
  EngineCounterImpl(Post post, std::string model) : post_(std::move(post)), model_(std::move(model)) {}

  Result<int64_t> CountText(std::string_view text) override {
    return Ask(Json{{"model", model_},
                    {"prompt", text},
                    {"content", text},
                    {"add_special_tokens", true},
                    {"add_special", true}});
  }

  Result<int64_t> CountChat(const std::vector<std::pair<std::string, std::string>>& messages) override {
    Json list = Json::array();
    for (const auto& [role, content] : messages) list.push_back({{"role", role}, {"content", content}});
    auto direct = Ask(Json{{"model", model_}, {"messages", list}, {"add_generation_prompt", true}});
    if (direct.ok()) return direct;
    // llama.cpp renders a chat first, at another address.
    POOLMARK_ASSIGN_OR_RETURN(const std::string answer,
                              post_("/apply-template", Json{{"messages", list}}.dump()));
    POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(answer, "/apply-template"));
    const auto prompt = json.find("prompt");
    if (!json.is_object() || prompt == json.end() || !prompt->is_string()) {
      return Unavailable("/apply-template", "gave no prompt");
    }
    return Ask(Json{{"content", *prompt}, {"add_special", true}, {"parse_special", true}});
  }

 private:
  Result<int64_t> Ask(const Json& request) {
    POOLMARK_ASSIGN_OR_RETURN(
        const std::string answer,
        post_("/tokenize", request.dump(-1, ' ', false, Json::error_handler_t::replace)));
    POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(answer, "/tokenize"));
    if (json.is_object() && json.contains("count") && json["count"].is_number_unsigned()) {
      const uint64_t count = json["count"].get<uint64_t>();
      if (count <= static_cast<uint64_t>(kMostCounted)) return static_cast<int64_t>(count);
      return Unavailable("/tokenize", "counted " + std::to_string(count) + " tokens, at most " +
                                          std::to_string(kMostCounted) + " can be");
    }
    if (json.is_object() && json.contains("tokens") && json["tokens"].is_array() &&
        request.contains("content")) {
      return static_cast<int64_t>(json["tokens"].size());
    }
    return Unavailable("/tokenize", "gave neither a count nor tokens");
  }

  Post post_;
  std::string model_;
};

std::string Joined(const std::vector<std::string>& words, size_t from, size_t to) {
  std::string text = "the";  // the first word of a text often has another form, without a space before it
  for (size_t i = from; i < to; ++i) text += " " + words[i];
  return text;
}

// Keeps of words[from, to) those that add one token each, by halving.
Status Keep(TokenCounter* counter, const std::vector<std::string>& words, size_t from, size_t to,
            int64_t base, std::vector<std::string>* kept) {
  if (from == to) return absl::OkStatus();
  POOLMARK_ASSIGN_OR_RETURN(const int64_t count, counter->CountText(Joined(words, from, to)));
  if (count - base == static_cast<int64_t>(to - from)) {
    kept->insert(kept->end(), words.begin() + static_cast<long>(from), words.begin() + static_cast<long>(to));
    return absl::OkStatus();
  }
  if (to - from == 1) return absl::OkStatus();
  const size_t middle = from + (to - from) / 2;
  POOLMARK_RETURN_IF_ERROR(Keep(counter, words, from, middle, base, kept));
  return Keep(counter, words, middle, to, base, kept);
}

}  // namespace

std::unique_ptr<TokenCounter> EngineCounter(Post post, std::string model) {
  return std::make_unique<EngineCounterImpl>(std::move(post), std::move(model));
}

const std::vector<std::string>& PlainWords() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> list;
    static constexpr std::string_view text =
        "time year people way day man thing woman life child world school state family student group country "
        "problem hand part place case week company system program question work government number night "
        "point "
        "home water room mother area money story fact month lot right study book eye job word business issue "
        "side kind head house service friend father power hour game line end member law car city community "
        "name "
        "president team minute idea kid body information back parent face others level office door health "
        "person "
        "art war history party result change morning reason research girl guy moment air teacher force "
        "education "
        "foot boy age policy music market sense nation plan college interest death experience effect use "
        "class "
        "control care field development role effort rate heart drug show leader light voice wife police mind "
        "price report decision son view relationship town road arm difference value building action season "
        "society tax director position player record paper space ground form event official matter center "
        "couple "
        "site project activity star table need court American oil half situation cost industry figure street "
        "image phone data picture practice piece land product doctor wall worker news test movie north love "
        "support technology step baby computer type attention film tree source organization hair look "
        "century "
        "evidence window culture chance brother energy period course summer plant opportunity term letter "
        "condition choice rule daughter south husband floor campaign material population call economy "
        "hospital "
        "church risk fire future bank west sport board subject officer rest behavior performance fight top "
        "goal "
        "second bed order author blood agency nature color store sound movement page race concern series "
        "language "
        "response animal factor decade article east artist scene stock career treatment approach size dog "
        "fund "
        "media sign thought list individual quality pressure answer resource meeting disease success cup "
        "amount "
        "ability staff character growth loss degree attack region television box training trade deal "
        "election "
        "feeling standard bill message analysis benefit sex lawyer section glass skill sister professor "
        "operation "
        "crime stage authority design sort knowledge gun station strategy truth song example environment leg "
        // Three letters at most: one token for the coarsest tokenizers too.
        "the and for not you all any can had her was one our out get has him how new now old see two who did "
        "its let put "
        "say she too use sun sky sea red big hot top low dry wet ice oil gas map pen cup hat bag key bus van "
        "cat cow pig "
        "hen fox bee ant egg pie jam tea ham nut bar pub zoo gym park";
    size_t at = 0;
    while (at < text.size()) {
      const size_t end = std::min(text.find(' ', at), text.size());
      const std::string_view word = text.substr(at, end - at);
      if (std::find(list.begin(), list.end(), word) == list.end()) list.emplace_back(word);
      at = end + 1;
    }
    return list;
  }();
  return words;
}

Result<TextTokens> CalibrateWords(TokenCounter* counter, bool chat, bool system) {
  TextTokens text;
  POOLMARK_ASSIGN_OR_RETURN(const int64_t base, counter->CountText("the"));
  std::vector<std::string> kept;
  POOLMARK_RETURN_IF_ERROR(Keep(counter, PlainWords(), 0, PlainWords().size(), base, &kept));
  // The first word of a text has no space before it: keep only words that cost one token there too.
  Status failed = absl::OkStatus();
  std::erase_if(kept, [&](const std::string& word) {
    const auto alone = counter->CountText(word);
    if (!alone.ok()) failed = alone.status();
    return !alone.ok() || *alone != base;
  });
  POOLMARK_RETURN_IF_ERROR(failed);
  if (kept.size() < 64) {
    return Precondition("tokenizer",
                        "only " + std::to_string(kept.size()) + " of " + std::to_string(PlainWords().size()) +
                            " plain words are one token each, 64 are needed",
                        "send token ids: prompt: ids, or --api completions --prompt-ids");
  }
  text.words = std::move(kept);
  const auto& words = text.words;
  POOLMARK_ASSIGN_OR_RETURN(const int64_t pair, counter->CountText(words[0] + " " + words[1]));
  text.text_overhead = pair - 2;
  if (chat) {
    const std::string one = words[0] + " " + words[1];
    POOLMARK_ASSIGN_OR_RETURN(const int64_t single, counter->CountChat({{"user", one}}));
    POOLMARK_ASSIGN_OR_RETURN(const int64_t triple,
                              counter->CountChat({{"user", one}, {"assistant", one}, {"user", one}}));
    const int64_t more = triple - single - 4;
    if (more < 0 || more % 2 != 0) {
      return Precondition("tokenizer",
                          "the chat template adds " + std::to_string(more) +
                              " tokens for two messages: their number is not the same for each",
                          "use api: completions");
    }
    text.message_overhead = more / 2;
    text.chat_overhead = single - 2 - text.message_overhead;
    if (system) {
      // Some templates have a system block of their own where a chat brings none, or always one.
      const auto with = counter->CountChat({{"system", one}, {"user", one}});
      if (!with.ok()) {
        return Precondition(
            "tokenizer",
            "the chat template takes no system message, which holds this workload's prefix: " +
                std::string(with.status().message()),
            "use api: completions, or no prefix");
      }
      text.system_overhead = *with - single - 2;
    }
  }
  POOLMARK_ASSIGN_OR_RETURN(const int64_t check, counter->CountText(Joined(words, 0, words.size())));
  text.exact = check - base == static_cast<int64_t>(words.size());
  return text;
}

}  // namespace poolmark::workload
