#include "common/results/reuse_facts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/load/record_codec.h"
#include "common/results/figures.h"
#include "common/workload/measure.h"
#include "common/workload/source.h"

namespace poolmark::results {
namespace {

// Doubtful answers that change the reusable share by less are told in a note.
constexpr double kDoubtfulShare = 0.005;

// The level as the workload's own setting. A rate says only when requests come, and the records know that.
void SetLevel(const std::string& level, Json* options) {
  if (level.size() < 2) return;
  const double value = std::atof(level.c_str() + 1);
  for (const char* key : {"concurrency", "rate", "arrivals", "cv", "speedup"}) options->erase(key);
  if (level[0] == 'c') (*options)["concurrency"] = static_cast<int64_t>(value);
  if (level[0] == 'x') (*options)["speedup"] = value;
}

// Records may say anything: no overflow.
int64_t Difference(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_sub_overflow(a, b, &out)) return out;
  return a > b ? INT64_MAX : INT64_MIN;
}

// Why nothing can be said of what was reusable with these live answers; "": it can.
std::string Unknown(const workload::SentReuse& sent) {
  if (!sent.answers || sent.answers->answers == 0) return "";
  if (sent.answers->counted == 0)
    return "live answers: the engine did not count the prompts' tokens, so that their length is not known";
  const double most = sent.reuse.share().value_or(0);
  const double least = sent.least ? sent.least->share().value_or(0) : most;
  if (most - least <= kDoubtfulShare) return "";
  return "live answers: " + std::to_string(sent.answers->doubtful) + " of " +
         std::to_string(sent.answers->answers) +
         " are not known to stand in the next prompt as the engine wrote them (their text was tokenized "
         "anew): "
         "between " +
         Percent(least) + " and " + Percent(most) + " of the prompts were reusable";
}

void NoteAnswers(const workload::AnswerCounts& answers, std::vector<std::string>* notes) {
  const auto number = [](auto value) { return std::to_string(value); };
  if (answers.planned_over_counted != 0)
    notes->push_back("Live answers were not of their planned length: the prompts had " +
                     number(std::abs(answers.planned_over_counted)) + " tokens " +
                     (answers.planned_over_counted > 0 ? "fewer" : "more") +
                     " than planned. What was reusable is of the prompts as the engine counted them.");
  if (answers.without_reasoning > 0)
    notes->push_back(
        number(answers.without_reasoning) + " of " + number(answers.answers) +
        " live answers stand in the next prompt without the engine's reasoning: the prompts that "
        "follow share with the cache only what came before the answer.");
  if (answers.doubtful > 0)
    notes->push_back(number(answers.doubtful) + " of " + number(answers.answers) +
                     " live answers are not known to stand in the next prompt as the engine wrote them; they "
                     "count as reusable.");
}

}  // namespace

std::optional<workload::SentRequest> SentOf(const load::RequestRecord& record) {
  if (!record.was_sent() || record.outcome == load::Outcome::kHttpStatus) return std::nullopt;
  const auto seconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; };
  workload::SentRequest out{record.session, record.turn, seconds(record.latency_start()), seconds(record.end),
                            record.primer};
  out.planned_input_tokens = record.planned_input_tokens;
  out.reasoned = record.first_output && record.first_answer_output != record.first_output;
  out.stopped = record.finish_reason == "stop";
  if (record.input_tokens)
    out.planned_over_counted = Difference(record.planned_input_tokens, *record.input_tokens);
  if (record.outcome == load::Outcome::kOk) out.output_tokens = record.output_tokens;
  return out;
}

Result<ReuseFacts> MeasureReuse(const WorkloadInput& input, const std::string& requests_path, double from,
                                double to, uint32_t block_tokens) {
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, load::RecordReader::Open(requests_path));
  std::vector<workload::SentRequest> sent;
  load::RequestRecord record;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) break;
    if (const auto request = SentOf(record)) sent.push_back(*request);
  }
  return MeasureReuse(input, std::move(sent), from, to, block_tokens);
}

Result<ReuseFacts> MeasureReuse(const WorkloadInput& input, std::vector<workload::SentRequest> sent,
                                double from, double to, uint32_t block_tokens) {
  POOLMARK_ASSIGN_OR_RETURN(Json options, ParseJson(input.options_json, "workload"));
  if (!options.is_object()) return InvalidInput("workload", "its options are no object");
  if (!input.file.empty()) options["file"] = input.file;
  SetLevel(input.level, &options);
  POOLMARK_ASSIGN_OR_RETURN(const auto spec, workload::ParseWorkload(options));
  POOLMARK_ASSIGN_OR_RETURN(const auto source, workload::OpenWorkload(spec));
  const auto measured = workload::MeasureReuse(*source, spec, std::move(sent), from, to,
                                               std::max<uint32_t>(1, block_tokens), input.warm_pass);
  const workload::Reuse& reuse = measured.reuse;
  if (reuse.unknown_turns > 0)
    return InvalidInput(
        "workload",
        std::to_string(reuse.unknown_turns) + " of the requests name a turn that their session does not have",
        "the records or the workload are not those of this repeat");
  ReuseFacts out;
  if (const std::string unknown = Unknown(measured); !unknown.empty()) {
    out = NoReuse(unknown);
  } else {
    out.reusable = reuse.share();
    out.reusable_uncut = reuse.share_uncut();
    out.reusable_lifetime = reuse.share_lifetime();
    out.working_set_tokens = static_cast<double>(reuse.working_set_tokens);
    out.curve = reuse.curve;
    if (measured.answers) NoteAnswers(*measured.answers, &out.notes);
    if (!measured.around.parts_known)
      out.notes.emplace_back(
          "The prompts are conversations of one length, which does not tell how many of the chat template's "
          "tokens stand before their first word: each message and the beginning count as having equally "
          "many.");
  }
  out.block_tokens = reuse.block_tokens;
  out.scope = source->session_scope() ? "session" : "global";
  const auto notes = source->notes();
  out.notes.insert(out.notes.end(), notes.begin(), notes.end());
  const uint32_t own = source->natural_block_tokens();
  if (own > 0 && own % std::max<uint32_t>(1, block_tokens) != 0) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "At this token scale the workload's blocks have %u tokens, the engine's %u: what is shared "
                  "inside an engine's block is lost (%.2f %% reusable, %.2f %% uncut).",
                  own, block_tokens, 100 * out.reusable.value_or(0), 100 * out.reusable_uncut.value_or(0));
    out.notes.emplace_back(text);
  }
  return out;
}

ReuseFacts NoReuse(const std::string& reason) {
  ReuseFacts out;
  out.reusable = out.reusable_uncut = out.reusable_lifetime = out.working_set_tokens = NotMeasured{reason};
  return out;
}

}  // namespace poolmark::results
