#include "agent/sim/answers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/random.h"

namespace poolmark::sim {
namespace {

constexpr size_t kQuestionTail = 8192;  // the question stands in the last bytes of a prompt

std::string Trim(std::string_view text) {
  size_t from = text.find_first_not_of(" \t\r\n");
  if (from == std::string_view::npos) return "";
  return std::string(text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1));
}

std::string Lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string FirstText(const Json& record, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!record.contains(key)) continue;
    const Json& value = record[key];
    if (value.is_string() && !value.get_ref<const std::string&>().empty())
      return Trim(value.get<std::string>());
    if (value.is_array() && !value.empty() && value[0].is_string()) return Trim(value[0].get<std::string>());
  }
  return "";
}

struct Passage {
  std::string title;
  std::string body;
  bool marked = false;
};

std::string JoinSentences(const Json& value) {
  if (value.is_string()) return Trim(value.get<std::string>());
  std::string body;
  if (value.is_array()) {
    for (const Json& sentence : value) {
      if (sentence.is_string()) body += sentence.get<std::string>();
    }
  }
  return Trim(body);
}

// The shapes of HotpotQA (pairs or columns), MuSiQue (paragraphs) and plain lists.
std::vector<Passage> Passages(const Json& record) {
  std::vector<Passage> passages;
  for (const char* key : {"paragraphs", "ctxs", "contexts", "retrieved_contexts", "context"}) {
    if (!record.contains(key)) continue;
    const Json& list = record[key];
    if (list.is_object() && list.contains("title") && list.contains("sentences")) {
      for (size_t i = 0; i < list["title"].size() && i < list["sentences"].size(); ++i) {
        if (!list["title"][i].is_string()) continue;
        passages.push_back({list["title"][i].get<std::string>(), JoinSentences(list["sentences"][i])});
      }
    } else if (list.is_array()) {
      for (const Json& item : list) {
        if (item.is_string()) {
          passages.push_back({"", Trim(item.get<std::string>())});
        } else if (item.is_array() && item.size() == 2 && item[0].is_string()) {
          passages.push_back({item[0].get<std::string>(), JoinSentences(item[1])});
        } else if (item.is_object()) {
          Passage passage{FirstText(item, {"title"}), FirstText(item, {"text", "paragraph_text"})};
          passage.marked = item.contains("is_supporting") && item["is_supporting"] == true;
          passages.push_back(std::move(passage));
        }
      }
    }
    if (!passages.empty()) break;
  }
  if (record.contains("supporting_facts") && record["supporting_facts"].is_array()) {
    for (const Json& fact : record["supporting_facts"]) {
      if (!fact.is_array() || fact.empty() || !fact[0].is_string()) continue;
      for (Passage& passage : passages) passage.marked |= passage.title == fact[0].get<std::string>();
    }
  }
  return passages;
}

// A number in [0, 1) that only depends on its arguments.
double Chance(uint64_t seed, const std::string& what, const std::string& question) {
  uint64_t bits = std::stoull(Sha256Hex(std::to_string(seed) + ":" + what + ":" + question, 15), nullptr, 16);
  return static_cast<double>(bits) / static_cast<double>(1ull << 60);
}

std::string Tagged(const std::string& reasoning, const std::string& answer) {
  return reasoning + "\n<answer>" + answer + "</answer>";
}

}  // namespace

Token PlainWord(uint64_t prompt_hash, int64_t index) {
  // Each is one token with the space before it, so that an answer sent back counts as many tokens.
  static const std::vector<Token> words = [] {
    std::vector<Token> list;
    for (const char* word :
         {" the", " of",  " and", " to",  " in",  " a",   " is",  " it",  " on",  " as",  " at",
          " be",  " by",  " we",  " or",  " an",  " so",  " no",  " if",  " up",  " key", " run",
          " set", " map", " one", " two", " six", " ten", " old", " new", " far", " sun", " sea",
          " sky", " day", " way", " men", " see", " say", " ask", " try", " use", " get", " put"}) {
      Encode(word, &list);
    }
    return list;
  }();
  SplitMix64 random(prompt_hash ^ (static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ull));
  return words[random.Below(words.size())];
}

Result<std::unique_ptr<Answerer>> Answerer::Make(const AnswerOptions& options) {
  std::unique_ptr<Answerer> answerer(new Answerer(options));
  if (options.dataset.empty()) return answerer;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(options.dataset));
  std::vector<Json> records;
  if (options.dataset.size() > 6 && options.dataset.substr(options.dataset.size() - 6) == ".jsonl") {
    POOLMARK_ASSIGN_OR_RETURN(records, ParseJsonLines(text, options.dataset));
  } else {
    POOLMARK_ASSIGN_OR_RETURN(Json list, ParseJson(text, options.dataset));
    if (!list.is_array()) return InvalidInput(options.dataset, "the data set is no list of records");
    records.assign(list.begin(), list.end());
  }
  for (const Json& record : records) {
    if (!record.is_object()) continue;
    Question question;
    question.question = FirstText(record, {"question", "query", "user_input"});
    question.gold = FirstText(record, {"answers", "answer", "reference"});
    if (question.question.empty() || question.gold.empty()) continue;
    std::vector<Passage> passages = Passages(record);
    bool marked = std::any_of(passages.begin(), passages.end(), [](const Passage& p) { return p.marked; });
    for (const Passage& passage : passages) {
      bool holds = Lower(passage.body).find(Lower(question.gold)) != std::string::npos;
      if ((marked ? passage.marked : holds) && !passage.body.empty())
        question.passages.push_back(passage.body);
    }
    answerer->questions_.push_back(std::move(question));
  }
  if (answerer->questions_.empty()) {
    return InvalidInput(options.dataset, "no record has a question and an answer");
  }
  return answerer;
}

std::optional<Answer> Answerer::For(const std::string& prompt_text, bool moved) const {
  if (options_.judge) return Rate(prompt_text);
  if (questions_.empty() || prompt_text.empty()) return std::nullopt;
  std::string_view tail(prompt_text);
  if (tail.size() > kQuestionTail) tail.remove_prefix(tail.size() - kQuestionTail);
  // The question asked is the one that ends last; of two that end together, the longer one.
  const Question* asked = nullptr;
  size_t best_end = 0;
  for (const Question& question : questions_) {
    size_t at = tail.rfind(question.question);
    if (at == std::string_view::npos) continue;
    size_t end = at + question.question.size();
    if (asked == nullptr || end > best_end ||
        (end == best_end && question.question.size() > asked->question.size())) {
      asked = &question;
      best_end = end;
    }
  }
  if (asked == nullptr) return std::nullopt;
  return Look(*asked, prompt_text, moved);
}

Answer Answerer::Look(const Question& question, const std::string& prompt_text, bool moved) const {
  bool found =
      std::any_of(question.passages.begin(), question.passages.end(),
                  [&](const std::string& passage) { return prompt_text.find(passage) != std::string::npos; });
  if (!found && question.passages.empty()) found = true;  // nothing to look for: yes-or-no questions
  if (!found) return {Tagged("I read all passages.", "The answer is not mentioned in the passages.")};
  if (Chance(options_.seed, "abstain", question.question) < options_.abstain_share)
    return Spoil(question, "abstain");
  if (Chance(options_.seed, "cut", question.question) < options_.cut_share) return Spoil(question, "cut");
  if (moved && Chance(options_.seed, "spoil", question.question) < options_.spoil_share) {
    std::vector<std::string> kinds;
    std::string_view rest = options_.spoil_kinds;
    while (!rest.empty()) {
      size_t comma = rest.find(',');
      kinds.emplace_back(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    if (!kinds.empty()) {
      double which = Chance(options_.seed, "kind", question.question) * static_cast<double>(kinds.size());
      return Spoil(question, kinds[std::min(static_cast<size_t>(which), kinds.size() - 1)]);
    }
  }
  return {Tagged("I looked the question up in the passages.", question.gold)};
}

Answer Answerer::Spoil(const Question& question, const std::string& kind) const {
  if (kind == "abstain") return {Tagged("I read the passages.", "This is not mentioned in the passages.")};
  if (kind == "empty") return {"I looked the question up but will not say what it is."};
  if (kind == "cut") return {"I looked the question up.\n<answer>", true};
  if (kind == "wrong") {
    // A word that stands in the question or a passage, and is not the answer.
    std::string word;
    std::string source =
        question.question + " " + (question.passages.empty() ? "" : question.passages.front());
    for (size_t at = 0; at < source.size();) {
      size_t end = source.find_first_of(" .,?\n", at);
      if (end == std::string::npos) end = source.size();
      std::string candidate = source.substr(at, end - at);
      bool in_gold = Lower(question.gold).find(Lower(candidate)) != std::string::npos;
      if (candidate.size() > word.size() && candidate.size() > 3 && !in_gold) word = candidate;
      at = end + 1;
    }
    if (!word.empty()) return {Tagged("I looked the question up.", word)};
  }
  return {Tagged("I looked the question up.", "quorlen vastrit")};  // words of no prompt
}

Answer Answerer::Rate(const std::string& prompt_text) const {
  auto field = [&](std::string_view label, size_t* at) -> std::string {
    *at = prompt_text.rfind(label);
    if (*at == std::string::npos) return "";
    size_t from = *at + label.size();
    size_t end = std::min(prompt_text.find("\n###", from), prompt_text.find("\n\n", from));
    return Trim(std::string_view(prompt_text).substr(from, end == std::string::npos ? end : end - from));
  };
  size_t answer_at = 0, reference_at = 0;
  std::string answer = field("User Answer:", &answer_at);
  std::string reference = field("Reference Answer:", &reference_at);
  if (options_.judge_fault == "garbage") return {"<|im_start|>\xf0\x9f\xa4\x96 as an AI I cannot ..."};
  if (options_.judge_fault == "silent") return {""};
  if (options_.judge_fault == "yes-man") return {"4"};
  std::string reply = JudgeReply(answer, reference, answer_at < reference_at);
  if (options_.judge_fault == "lying") {
    for (char& c : reply) {
      if (c == '4') {
        c = '0';
      } else if (c == '0') {
        c = '4';
      }
    }
  }
  return {reply};
}

std::string JudgeReply(std::string_view answer, std::string_view reference, bool answer_first) {
  std::string a = Lower(Trim(answer));
  std::string r = Lower(Trim(reference));
  if (a.find("norating") != std::string::npos) return answer_first ? "I cannot rate" : "no idea";
  if (a == r) return answer_first ? "4" : "Rating: 4";
  if (!r.empty() && a.find(r) != std::string::npos) return answer_first ? "4" : "2";
  if (!a.empty() && r.find(a) != std::string::npos) return "2";
  return "0";
}

}  // namespace poolmark::sim
