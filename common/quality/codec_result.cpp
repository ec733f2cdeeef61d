#include <set>

#include "common/base/json_text.h"
#include "common/quality/codec.h"
#include "common/quality/codec_parts.h"

namespace poolmark::quality {
namespace {

Json ComparisonJson(const ArmComparison& c) {
  return {{"label", c.label},
          {"mean_score", c.figures.mean_score},
          {"delta", c.figures.delta},
          {"standard_error", OrNull(c.figures.standard_error)}};
}

ArmComparison ReadComparison(Json& object, const std::string& where, Fields& parent) {
  Fields f(object, where);
  ArmComparison c;
  c.label = f.Str("label");
  c.figures = {f.Num("mean_score"), f.Num("delta"), f.NullableNum("standard_error")};
  parent.Adopt(f.status());
  return c;
}

Json PaddingJson(const std::optional<Padding>& padding) {
  if (!padding) return nullptr;
  double share = padding->prompt_tokens > 0
                     ? static_cast<double>(padding->pad_tokens) / static_cast<double>(padding->prompt_tokens)
                     : 0.0;
  return {{"filler", padding->filler},
          {"pad_tokens", padding->pad_tokens},
          {"prompt_tokens", padding->prompt_tokens},
          {"share", share}};
}

Json ReuseJson(const std::optional<ReuseSummary>& reuse) {
  if (!reuse) return nullptr;
  Json groups = Json::array();
  for (const ReuseGroup& g : reuse->groups) {
    groups.push_back({{"kind", g.kind},
                      {"questions", g.questions},
                      {"delta", g.figures.delta},
                      {"standard_error", OrNull(g.figures.standard_error)}});
  }
  return {{"expected_tokens", OrNull(reuse->expected_tokens)},
          {"observed_tokens", reuse->observed_tokens},
          {"observed_prefix_tokens", reuse->observed_prefix_tokens},
          {"observed_blended_tokens", reuse->observed_blended_tokens},
          {"observed_over_expected", OrNull(reuse->observed_over_expected)},
          {"groups", std::move(groups)}};
}

Json EngagementJson(const Engagement& e) {
  return {{"measured", e.measured},
          {"blend_share", e.blend_share},
          {"min_window_share", e.min_window_share},
          {"stale_chunks", e.stale_chunks},
          {"segmented_prefix_hit_tokens", e.segmented_prefix_hit_tokens},
          {"fingerprints_registered", e.fingerprints_registered},
          {"engaged", e.engaged},
          {"gate", e.gate},
          {"reuse_ratio", OrNull(e.reuse_ratio)},
          {"min_window_reuse_ratio", OrNull(e.min_window_reuse_ratio)}};
}

Json RowJson(const Row& row) {
  Json scores = Json::object();
  for (const auto& [label, score] : row.scores) scores[label] = OrNull(score);
  Json evidence = Json::array();
  for (const EvidencePlace& e : row.evidence) {
    evidence.push_back({{"passage_id", e.passage_id},
                        {"origin", e.origin},
                        {"stored_position", e.stored_position},
                        {"measured_position", e.measured_position}});
  }
  Json out = {{"qid", row.qid}, {"gold", row.gold}, {"scores", std::move(scores)}};
  if (row.match) out["match"] = PerArmJson(*row.match);
  out["answers"] = PerArmJson(row.answers);
  out["loss_tag"] = OrNull(row.loss_tag);
  out["reference_flipped"] = OrNull(row.reference_flipped);
  out["blend_share"] = OrNull(row.blend_share);
  out["reuse"] = {{"expected_tokens", OrNull(row.reuse.expected_tokens)},
                  {"kind", OrNull(row.reuse.kind)},
                  {"prefix_tokens", OrNull(row.reuse.prefix_tokens)},
                  {"blended_tokens", OrNull(row.reuse.blended_tokens)}};
  out["evidence"] = std::move(evidence);
  return out;
}

template <class T, class Read>
PerArm<T> ReadPerArm(Fields& f, const char* key, const char* wanted, const Read& read) {
  PerArm<T> out;
  Json* object = f.Object(key);
  if (object == nullptr) return out;
  for (auto it = object->begin(); it != object->end(); ++it) {
    std::optional<T> value = read(*it);
    if (!value) {
      f.Fail(key,
             absl::StrCat("holds '", it.key(), "' of type ", it->type_name(), ", ", wanted, " is needed"));
      break;
    }
    out.emplace_back(it.key(), std::move(*value));
  }
  return out;
}

std::optional<int64_t> AsInt(const Json& value) {
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// Every per-arm object of a row is about the same passes.
template <class T>
void CheckLabels(Fields& f, const char* key, const Row& row, const PerArm<T>& values) {
  std::set<std::string> want, have;
  for (const auto& [label, score] : row.scores) want.insert(label);
  for (const auto& [label, value] : values) have.insert(label);
  if (want != have) f.Fail(key, "is not about the passes that 'scores' is about");
}

Status ReadRow(Json& object, const std::string& where, Row* row) {
  Fields f(object, where);
  row->qid = f.Str("qid");
  row->gold = f.Strings("gold");
  row->scores = ReadPerArm<std::optional<double>>(f, "scores", "a number or null", [](const Json& v) {
    using Score = std::optional<std::optional<double>>;
    if (v.is_null()) return Score(std::in_place, std::nullopt);
    return v.is_number() ? Score(std::in_place, v.get<double>()) : Score();
  });
  if (f.Has("match")) {
    row->match = ReadPerArm<double>(f, "match", "a number", [](const Json& v) {
      return v.is_number() ? std::optional(v.get<double>()) : std::nullopt;
    });
  }
  row->answers = ReadPerArm<std::string>(f, "answers", "a string", [](const Json& v) {
    return v.is_string() ? std::optional(v.get<std::string>()) : std::nullopt;
  });
  CheckLabels(f, "answers", *row, row->answers);
  if (row->match) CheckLabels(f, "match", *row, *row->match);
  row->loss_tag = f.NullableStr("loss_tag");
  row->reference_flipped = f.NullableBool("reference_flipped");
  row->blend_share = f.NullableNum("blend_share");
  if (Json* reuse = f.NullableObject("reuse")) {
    Fields r(*reuse, absl::StrCat(where, " reuse"));
    row->reuse = {r.NullableInt("expected_tokens"), r.NullableStr("kind"), r.NullableNum("prefix_tokens"),
                  r.NullableNum("blended_tokens")};
    f.Adopt(r.status());
  }
  if (Json* evidence = f.Array("evidence")) {
    for (Json& item : *evidence) {
      Fields e(item, absl::StrCat(where, " evidence"));
      row->evidence.push_back(
          {e.Str("passage_id"), e.Str("origin"), e.Int("stored_position"), e.Int("measured_position")});
      f.Adopt(e.status());
    }
  }
  return f.status();
}

double ReadShare(Fields& f, const char* key) {
  const double value = f.Num(key);
  if (!(value >= 0 && value <= 1)) f.Fail(key, absl::StrCat("is ", value, ", between 0 and 1 is needed"));
  return value;
}

// Says again what the settings say; nothing is kept of it.
void CheckJudgeOf(Fields& top, const VerdictSettings& settings) {
  if (settings.metric != "judge") {
    if (!top.Null("judge")) top.Fail("judge", "is not null, and the metric is not the judge's");
    return;
  }
  Json* object = top.Object("judge");
  if (object == nullptr) return;
  Fields f(*object, absl::StrCat(top.where(), " judge"));
  (void)f.Str("model");
  (void)f.Str("metric");
  top.Adopt(f.status());
}

void ReadSettingsOf(Fields& top, Summary* s) {
  Json* settings = top.Object("settings");
  if (settings == nullptr) return;
  Fields f(*settings, absl::StrCat(top.where(), " settings"));
  const std::string metric = s->verdict_settings.metric = f.Str("verdict_metric");
  if (metric != "match" && metric != "f1" && metric != "judge")
    f.Fail("verdict_metric",
           absl::StrCat("is '", metric.substr(0, 40), "', one of match, f1, judge is needed"));
  if (metric == "judge") s->verdict_settings.judge_model = f.Str("judge_model");
  s->reference_repeats = f.Int("reference_repeats", 0);
  s->verdict_settings.tolerance = ReadShare(f, "tolerance");
  s->verdict_settings.min_blend_share = ReadShare(f, "min_blend_share");
  s->verdict_settings.min_reuse_ratio = ReadShare(f, "min_reuse_ratio");
  s->blend_metrics_url = f.Str("blend_metrics_url");
  top.Adopt(f.status());
  Json plan = *settings;
  for (const char* key : {"verdict_metric", "judge_model", "reference_repeats", "tolerance",
                          "min_blend_share", "min_reuse_ratio", "blend_metrics_url"}) {
    plan.erase(key);
  }
  Result<std::string> text = WriteJson(plan);
  top.Adopt(text.status());
  if (text.ok()) s->settings_json = *std::move(text);
}

void ReadArmsOf(Fields& top, Summary* s) {
  Json* arms = top.Object("arms");
  if (arms == nullptr) return;
  for (auto it = arms->begin(); it != arms->end(); ++it) {
    Fields f(*it, absl::StrCat(top.where(), " arms.", it.key()));
    Arm arm;
    arm.label = it.key();
    arm.url = f.Str("url");
    arm.engine_version = f.NullableStr("engine_version");
    arm.lmcache_version = f.Str("lmcache_version");
    arm.started_at = f.Str("started_at");
    arm.finished_at = f.Str("finished_at");
    top.Adopt(f.status());
    s->arms.push_back(std::move(arm));
  }
}

void ReadReuseOf(Fields& top, Summary* s) {
  Json* object = top.NullableObject("reuse");
  if (object == nullptr) return;
  Fields f(*object, absl::StrCat(top.where(), " reuse"));
  ReuseSummary reuse;
  reuse.expected_tokens = f.NullableInt("expected_tokens");
  reuse.observed_tokens = f.Num("observed_tokens");
  reuse.observed_prefix_tokens = f.Num("observed_prefix_tokens");
  reuse.observed_blended_tokens = f.Num("observed_blended_tokens");
  reuse.observed_over_expected = f.NullableNum("observed_over_expected");
  if (Json* groups = f.Array("groups")) {
    for (Json& item : *groups) {
      Fields g(item, absl::StrCat(top.where(), " reuse.groups"));
      ReuseGroup group;
      group.kind = g.Str("kind");
      group.questions = g.Int("questions", 0);
      group.figures = {0, g.Num("delta"), g.NullableNum("standard_error")};
      f.Adopt(g.status());
      reuse.groups.push_back(std::move(group));
    }
  }
  top.Adopt(f.status());
  s->reuse = std::move(reuse);
}

void ReadEngagementOf(Fields& top, Summary* s) {
  Json* object = top.Object("engagement");
  if (object == nullptr) return;
  Fields f(*object, absl::StrCat(top.where(), " engagement"));
  s->engagement = {f.Bool("measured"),
                   f.Num("blend_share"),
                   f.Num("min_window_share"),
                   f.Num("stale_chunks"),
                   f.Num("segmented_prefix_hit_tokens"),
                   f.Num("fingerprints_registered"),
                   f.Bool("engaged"),
                   f.Str("gate"),
                   f.NullableNum("reuse_ratio"),
                   f.NullableNum("min_window_reuse_ratio")};
  top.Adopt(f.status());
}

void ReadCountsOf(Fields& top, Summary* s) {
  if (Json* counts = top.Object("arm_counts")) {
    for (auto it = counts->begin(); it != counts->end(); ++it) {
      Fields f(*it, absl::StrCat(top.where(), " arm_counts.", it.key()));
      s->arm_counts.emplace_back(it.key(),
                                 ArmCounts{f.Int("answered", 0), f.Int("empty", 0), f.Int("abstained", 0)});
      top.Adopt(f.status());
    }
  }
  s->store_failures = ReadPerArm<int64_t>(top, "store_failures", "an integer", AsInt);
  s->loss_tags = ReadPerArm<int64_t>(top, "loss_tags", "an integer", AsInt);
}

}  // namespace

Result<std::string> EncodeRows(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) {
    POOLMARK_ASSIGN_OR_RETURN(std::string line, WriteJson(RowJson(row)));
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

Result<std::vector<Row>> DecodeRows(std::string_view text, const std::string& where) {
  std::vector<Row> rows;
  POOLMARK_RETURN_IF_ERROR(ForEachLine(text, where, [&](Json& object, const std::string& line_where) {
    return ReadRow(object, line_where, &rows.emplace_back());
  }));
  return rows;
}

Result<std::string> EncodeSummary(const Summary& s) {
  POOLMARK_ASSIGN_OR_RETURN(Json settings, ParseJson(s.settings_json, "settings"));
  const VerdictSettings& v = s.verdict_settings;
  settings["verdict_metric"] = v.metric;
  if (v.judge_model) settings["judge_model"] = *v.judge_model;
  settings["reference_repeats"] = s.reference_repeats;
  settings["tolerance"] = v.tolerance;
  settings["min_blend_share"] = v.min_blend_share;
  settings["min_reuse_ratio"] = v.min_reuse_ratio;
  settings["blend_metrics_url"] = s.blend_metrics_url;
  Json arms = Json::object();
  for (const Arm& arm : s.arms) {
    arms[arm.label] = {{"url", arm.url},
                       {"engine_version", OrNull(arm.engine_version)},
                       {"lmcache_version", arm.lmcache_version},
                       {"started_at", arm.started_at},
                       {"finished_at", arm.finished_at}};
  }
  Json others = Json::array();
  for (const ArmComparison& other : s.others) others.push_back(ComparisonJson(other));
  Json counts = Json::object();
  for (const auto& [label, c] : s.arm_counts) {
    counts[label] = {{"answered", c.answered}, {"empty", c.empty}, {"abstained", c.abstained}};
  }
  Json judge = nullptr;
  if (v.judge_model) judge = {{"model", *v.judge_model}, {"metric", kJudgeMetric}};
  Json out = {{"run_fingerprint", s.run_fingerprint}, {"plan_fingerprint", s.plan_fingerprint}};
  out["settings"] = std::move(settings);
  out["arms"] = std::move(arms);
  out["num_questions"] = s.num_questions;
  out["unscored_questions"] = s.unscored_questions;
  out["judge"] = std::move(judge);
  out["evidence_sources"] = {{"dataset", s.evidence_dataset},
                             {"answer_string", s.evidence_answer_string},
                             {"none", s.evidence_none}};
  out["measured_earlier_share"] = s.measured_earlier_share;
  out["padding"] = PaddingJson(s.padding);
  out["reuse"] = ReuseJson(s.reuse);
  out["num_store_requests"] = s.num_store_requests;
  out["verdict"] = VerdictName(s.verdict);
  out["invalid_reasons"] = s.invalid_reasons;
  out["samples_needed"] = s.samples_needed;
  out["reference_flip_rate"] = s.reference_flip_rate.value_or(-1.0);
  out["candidate"] = ComparisonJson(s.candidate);
  out["others"] = std::move(others);
  out["engagement"] = EngagementJson(s.engagement);
  out["arm_counts"] = std::move(counts);
  out["store_failures"] = PerArmJson(s.store_failures);
  out["loss_tags"] = PerArmJson(s.loss_tags);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, WriteJson(out, 2));
  return text + "\n";
}

Result<Summary> DecodeSummary(std::string_view text, const std::string& where) {
  POOLMARK_ASSIGN_OR_RETURN(Json root, ParseFile(text, where));
  Fields f(root, where);
  Summary s;
  s.run_fingerprint = f.Str("run_fingerprint");
  s.plan_fingerprint = f.Str("plan_fingerprint");
  ReadSettingsOf(f, &s);
  ReadArmsOf(f, &s);
  CheckJudgeOf(f, s.verdict_settings);
  s.num_questions = f.Int("num_questions", 0);
  s.unscored_questions = f.Int("unscored_questions", 0);
  if (Json* sources = f.Object("evidence_sources")) {
    Fields e(*sources, absl::StrCat(where, " evidence_sources"));
    s.evidence_dataset = e.Int("dataset", 0);
    s.evidence_answer_string = e.Int("answer_string", 0);
    s.evidence_none = e.Int("none", 0);
    f.Adopt(e.status());
  }
  s.measured_earlier_share = f.Num("measured_earlier_share");
  if (Json* padding = f.NullableObject("padding")) {
    Fields p(*padding, absl::StrCat(where, " padding"));
    s.padding = Padding{p.Str("filler"), p.Int("pad_tokens", 0), p.Int("prompt_tokens", 0)};
    (void)p.Num("share");  // written from the other two
    f.Adopt(p.status());
  }
  ReadReuseOf(f, &s);
  s.num_store_requests = f.Int("num_store_requests", 0);
  std::string verdict = f.Str("verdict");
  s.invalid_reasons = f.Strings("invalid_reasons");
  s.samples_needed = f.Int("samples_needed", 0);
  double flip = f.Num("reference_flip_rate");
  if (flip >= 0) s.reference_flip_rate = flip;
  if (Json* candidate = f.Object("candidate"))
    s.candidate = ReadComparison(*candidate, where + " candidate", f);
  if (Json* others = f.Array("others")) {
    for (Json& other : *others) s.others.push_back(ReadComparison(other, where + " others", f));
  }
  ReadEngagementOf(f, &s);
  ReadCountsOf(f, &s);
  if (!f.status().ok()) return f.status();
  std::optional<Verdict> known = VerdictOf(verdict);
  if (!known)
    return InvalidInput(
        where, absl::StrCat("'verdict' is '", verdict.substr(0, 40), "', which is none of the four"));
  s.verdict = *known;
  return s;
}

}  // namespace poolmark::quality
