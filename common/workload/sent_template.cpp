#include "common/workload/sent_template.h"

#include <algorithm>
#include <map>
#include <optional>

namespace poolmark::workload {
namespace {

constexpr size_t kMostSessions = 256;               // that are looked at: one template is of all prompts
constexpr int64_t kMostTemplateTokens = 1'000'000;  // no template is as long; records may say anything
constexpr uint64_t kKey = 0x74656d706c617465;

// Neighbouring spans of one role are one message.
size_t MessagesOf(const Prompt& prompt) {
  size_t out = 0;
  for (size_t i = 0; i < prompt.size(); ++i) out += i == 0 || prompt[i].role != prompt[i - 1].role ? 1 : 0;
  return out;
}

Span TokensBefore(Role role, int64_t tokens) {
  return {MixKey(kKey, static_cast<uint64_t>(role)), static_cast<uint32_t>(tokens), role};
}

class Templated final : public Workload {
 public:
  Templated(const Workload& of, const Template& tokens, bool chat) : of_(of), tokens_(tokens), chat_(chat) {}
  uint64_t sessions() const override { return of_.sessions(); }
  Script Open(uint64_t number) const override {
    Script script = of_.Open(number);
    for (Turn& turn : script.turns) turn.prompt = Around(turn.prompt);
    return script;
  }

 private:
  Prompt Around(const Prompt& words) const {
    Prompt out;
    out.reserve(2 * words.size() + 1);
    const auto add = [&](Role role, int64_t tokens) {
      if (tokens > 0) out.push_back(TokensBefore(role, tokens));
    };
    for (size_t i = 0; i < words.size(); ++i) {
      if (i == 0) {
        add(chat_ ? words[i].role : Role::kSystem, tokens_.first);
      } else if (chat_ && words[i].role != words[i - 1].role) {
        add(words[i].role, tokens_.per_message);
      }
      out.push_back(words[i]);
    }
    if (chat_ && !words.empty()) add(Role::kAssistant, tokens_.per_message);  // opens the answer
    return out;
  }

  const Workload& of_;
  const Template tokens_;
  const bool chat_;
};

struct Size {
  int64_t words = 0, messages = 0;
};

// Of each turn. The prompts themselves, which hold a session's whole history each, are not kept.
std::vector<Size> SizesOf(const Script& script) {
  std::vector<Size> out;
  out.reserve(script.turns.size());
  for (const Turn& turn : script.turns)
    out.push_back({TokensOf(turn.prompt), static_cast<int64_t>(MessagesOf(turn.prompt))});
  return out;
}

// What prompts of so many messages have more than their words; nothing: not all of them alike.
std::optional<std::map<int64_t, int64_t>> MoreByMessages(const Workload& planned, bool chat,
                                                         const std::vector<SentRequest>& requests) {
  std::map<uint64_t, std::vector<Size>> sessions;
  std::map<int64_t, int64_t> out;
  for (const SentRequest& request : requests) {
    if (request.session >= planned.sessions()) continue;
    auto at = sessions.find(request.session);
    if (at == sessions.end()) {
      if (sessions.size() == kMostSessions) continue;
      at = sessions.emplace(request.session, SizesOf(planned.Open(request.session))).first;
    }
    if (request.turn >= at->second.size()) continue;
    const auto [words, messages] = at->second[request.turn];
    if (request.planned_input_tokens < words || request.planned_input_tokens > words + kMostTemplateTokens)
      return std::nullopt;
    const int64_t more = request.planned_input_tokens - words;
    const auto known = out.emplace(chat ? messages : 0, more).first;
    if (known->second != more) return std::nullopt;
  }
  return out;
}

}  // namespace

Template TemplateOf(const Workload& planned, const WorkloadSpec& spec,
                    const std::vector<SentRequest>& requests) {
  Template out;
  if (spec.token_ids) return out;
  const auto more = MoreByMessages(planned, spec.chat, requests);
  if (!more || more->empty()) return out;
  const auto& [fewest, least] = *more->begin();
  const auto& [most, largest] = *more->rbegin();
  if (!spec.chat) {
    out.first = least;
    return out;
  }
  if (fewest == most) {
    out.per_message = least / (fewest + 1);
    out.parts_known = least == 0;
  } else {
    out.per_message = (largest - least) / (most - fewest);
  }
  out.first = least - fewest * out.per_message;
  for (const auto& [messages, tokens] : *more) {
    if (out.first < 0 || out.per_message < 0 || out.first + messages * out.per_message != tokens) return {};
  }
  return out;
}

std::unique_ptr<Workload> WithTemplate(const Workload& of, const Template& tokens, bool chat) {
  return std::make_unique<Templated>(of, tokens, chat);
}

}  // namespace poolmark::workload
