#include "common/quality/judge.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/json_repair.h"
#include "common/http/retry.h"
#include "common/quality/digests.h"
#include "common/quality/sender.h"

namespace poolmark::quality {
namespace {

constexpr int kTries = 5;
// So many answers in a row without any completion: the judge is gone, the rest stays unrated.
constexpr int kGivenUpAfter = 8;

struct Triple {
  std::string key;
  std::string question;
  std::string answer;
  std::string reference;
};

// The distinct answers to rate, in plan order; missing answers score 0 without a call.
std::vector<Triple> Triples(const LoadedDirectory& directory, const std::string& model) {
  std::vector<Triple> out;
  std::map<std::string, bool> seen;
  for (size_t i = 0; i < directory.plan.samples.size(); ++i) {
    const Sample& sample = directory.plan.samples[i];
    if (sample.answers.empty()) continue;
    for (const Pass& pass : directory.passes) {
      const std::string& answer = pass.answers[i].answer;
      if (answer.empty()) continue;
      std::string key = JudgeKey(model, sample.question, answer, sample.answers.front());
      if (seen.emplace(key, true).second)
        out.push_back({key, sample.question, answer, sample.answers.front()});
    }
  }
  return out;
}

// Whether the judge's server was heard of: any HTTP answer, and a completion.
struct Contact {
  bool reached = false;
  bool answered = false;
};

class Caller {
 public:
  Caller(const JudgeOptions& options, const JudgeTemplates& templates, const JudgeContext& context)
      : options_(options), templates_(templates), context_(context) {}

  JudgeRating Rate(const Triple& t, Contact* contact, std::string* problem) const {
    JudgeRating rating;
    rating.answer_first =
        Ask(AnswerFirstPrompt(templates_, t.question, t.answer, t.reference), contact, problem);
    rating.reference_first =
        Ask(ReferenceFirstPrompt(templates_, t.question, t.answer, t.reference), contact, problem);
    return rating;
  }

 private:
  std::optional<double> Ask(const std::string& prompt, Contact* contact, std::string* problem) const {
    for (int i = 0; i < kTries && !context_.stop.stop_requested(); ++i) {
      bool wait = true;
      Result<std::string> reply = Reply(prompt, contact, &wait);
      if (!reply.ok()) {
        *problem = std::string(reply.status().message());
        if (wait && i + 1 < kTries) context_.sleep(std::chrono::milliseconds(250) * (1 << i));
        continue;
      }
      if (std::optional<double> rating = ParseRating(*reply)) return rating;
      *problem = absl::StrCat("the judge's reply holds no rating: '", reply->substr(0, 60), "'");
    }
    return std::nullopt;
  }

  Result<std::string> Reply(const std::string& prompt, Contact* contact, bool* wait) const {
    http::Request request;
    request.method = "POST";
    POOLMARK_ASSIGN_OR_RETURN(request.url, http::ParseUrl(ApiBase(options_.url) + "/chat/completions"));
    request.headers = {
        {"Content-Type", "application/json"},
        {"Authorization", absl::StrCat("Bearer ", options_.api_key.empty() ? "sk-dummy" : options_.api_key)}};
    Json body = {{"model", options_.model}, {"temperature", 0.1}, {"n", 1}};
    body["messages"] = Json::array();
    body["messages"].push_back({{"role", "user"}, {"content", prompt}});
    POOLMARK_ASSIGN_OR_RETURN(request.body, DumpJson(body));
    request.timeout = options_.timeout;
    request.max_body_bytes = 4u << 20;
    POOLMARK_ASSIGN_OR_RETURN(http::Response response, context_.client->Send(request));
    contact->reached = true;
    std::string where = request.url.ToString();
    if (response.status != 200) {
      // Waiting does not help against a request that is refused.
      *wait = http::StatusMayPass(response.status);
      return Unavailable(
          where, absl::StrCat("answered ", response.status, ": ", ValidUtf8(response.body.substr(0, 120))));
    }
    POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(RepairJson(response.body), where));
    contact->answered = true;
    // Only what the judge says, not what it thinks.
    auto text = json.is_object() ? Json::json_pointer("/choices/0/message/content") : Json::json_pointer("/");
    if (!json.is_object() || !json.contains(text) || !json.at(text).is_string()) return std::string();
    return json.at(text).get<std::string>();
  }

  const JudgeOptions& options_;
  const JudgeTemplates& templates_;
  const JudgeContext& context_;
};

// One right and one wrong known answer; nothing when the judge tells them apart.
Result<std::optional<std::string>> SanityCheck(const Caller& caller, const JudgeOptions& options) {
  Contact contact;
  std::string problem;
  JudgeRating right =
      caller.Rate({"", "What is the capital of France?", "Paris", "Paris"}, &contact, &problem);
  if (!contact.reached) {
    return Unavailable(options.url, absl::StrCat("the judge cannot be reached: ", problem),
                       "check --judge-url");
  }
  JudgeRating wrong =
      caller.Rate({"", "What is the capital of France?", "A bicycle", "Paris"}, &contact, &problem);
  if (!right.score() || !wrong.score())
    return std::optional(absl::StrCat("the judge gave no rating to a known answer: ", problem));
  if (*right.score() <= *wrong.score()) {
    return std::optional(absl::StrCat("the judge rates a right known answer ", *right.score(),
                                      " and a wrong one ", *wrong.score()));
  }
  return std::optional<std::string>();
}

// Works through the triples with several threads.
class Pool {
 public:
  Pool(const std::vector<Triple>& work, const Caller& caller, const JudgeOptions& options, JudgeCache* cache,
       const JudgeContext& context, JudgeTable* table)
      : work_(work), caller_(caller), cache_(cache), context_(context), table_(table) {
    size_t threads = std::min<size_t>(static_cast<size_t>(std::max(options.parallel, 1)), work.size());
    std::vector<std::jthread> running;
    for (size_t i = 0; i < threads; ++i) running.emplace_back([this] { Loop(); });
    running.clear();  // joins
    table->unrated = progress_.unrated;
    table->not_asked = static_cast<int64_t>(work.size()) - progress_.done;
  }
  const Status& status() const { return status_; }

 private:
  void Loop() {
    for (size_t i = next_++; i < work_.size(); i = next_++) {
      if (context_.stop.stop_requested() || silent_in_a_row_ >= kGivenUpAfter) return;
      Contact contact;
      std::string problem;
      JudgeRating rating = caller_.Rate(work_[i], &contact, &problem);
      if (context_.stop.stop_requested()) return;
      silent_in_a_row_ = contact.answered ? 0 : silent_in_a_row_ + 1;
      Status saved = rating.score() ? cache_->Add(work_[i].key, rating) : absl::OkStatus();
      std::lock_guard lock(mutex_);
      if (!saved.ok()) {
        status_ = saved;
        next_ = work_.size();
        return;
      }
      if (rating.score()) table_->by_key[work_[i].key] = rating;
      ++progress_.done;
      if (!rating.score()) {
        ++progress_.unrated;
        table_->problem = problem;
      }
      progress_.total = static_cast<int64_t>(work_.size());
      if (context_.progress) context_.progress(progress_);
    }
  }

  const std::vector<Triple>& work_;
  const Caller& caller_;
  JudgeCache* cache_;
  const JudgeContext& context_;
  std::atomic<size_t> next_{0};
  std::atomic<int> silent_in_a_row_{0};
  std::mutex mutex_;  // guards what follows
  JudgeTable* table_;
  JudgeProgress progress_;
  Status status_;
};

}  // namespace

std::optional<double> ParseRating(std::string_view reply) {
  for (int i = 0; i <= 4; ++i) {
    if (reply.find(static_cast<char>('0' + i)) != reply.npos) return i / 4.0;
  }
  return std::nullopt;
}

Result<JudgeTable> RateAnswers(const LoadedDirectory& directory, const JudgeOptions& options,
                               const JudgeTemplates& templates, JudgeCache* cache,
                               const JudgeContext& context) {
  JudgeTable table;
  std::vector<Triple> work;
  for (Triple& triple : Triples(directory, options.model)) {
    if (const JudgeRating* cached = cache->Find(triple.key)) {
      table.by_key[triple.key] = *cached;
    } else {
      work.push_back(std::move(triple));
    }
  }
  if (work.empty()) return table;
  Caller caller(options, templates, context);
  Result<std::optional<std::string>> insane = SanityCheck(caller, options);
  Status rated = insane.status();
  if (rated.ok() && !*insane) rated = Pool(work, caller, options, cache, context, &table).status();
  // Whatever a stopped call ended in says nothing about the judge.
  if (context.stop.stop_requested())
    return absl::CancelledError("interrupted; the ratings so far are kept in judge_cache.jsonl");
  POOLMARK_RETURN_IF_ERROR(rated);
  table.insane = *std::move(insane);
  // Such a judge rates nothing, not even by what it is said to have answered before.
  if (table.insane) table.by_key.clear();
  return table;
}

}  // namespace poolmark::quality
