#include "common/workload/stored_settings.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "common/base/json.h"
#include "common/base/time_format.h"

namespace poolmark::workload {
namespace {

// The lowest rate there is: it lets no other setting be refused.
constexpr double kNoRate = 1e-6;

bool HasSessions(Shape shape) {
  return shape == Shape::kSynthetic || shape == Shape::kSharedPrompt;
}

std::string Number(double value) {
  std::string text = PythonFloat(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string Of(bool value) {
  return value ? "true" : "false";
}

class Settings {
 public:
  explicit Settings(const Json& options) : options_(options) {}
  void Add(const char* name, std::string value) {
    out_.push_back({name, std::move(value), options_.contains(name)});
  }
  void Add(const char* name, int64_t value) { Add(name, std::to_string(value)); }
  void Add(const char* name, const std::optional<int64_t>& value) {
    if (value) Add(name, *value);
  }
  void Add(const char* name, const std::optional<Nanoseconds>& value) {
    if (value) Add(name, FormatDuration(*value));
  }
  std::vector<Setting> Take() { return std::move(out_); }

 private:
  const Json& options_;
  std::vector<Setting> out_;
};

// Settings that a workload may not have at all are added where `options` or `asked` name them.
void AddShape(const WorkloadSpec& spec, const Json& options, std::string_view asked, Settings* out) {
  const auto named = [&](std::string_view key) { return key == asked || options.contains(key); };
  switch (spec.shape) {
    case Shape::kAgentic:
      out->Add("file", spec.file);
      out->Add("limit", spec.limit);
      out->Add("load_duration", spec.load_duration);
      out->Add("warm_up", spec.warm_up);
      out->Add("think", spec.recorded_think ? "recorded" : "none");
      out->Add("think_cap", spec.think_cap);
      if (spec.recorded_think) out->Add("time_scale", Number(spec.time_scale));
      if (named("start"))
        out->Add("start", "[" + Number(spec.start_from) + ", " + Number(spec.start_to) + "]");
      break;
    case Shape::kTrace:
      out->Add("file", spec.file);
      out->Add("format", std::string(Name(spec.format)));
      out->Add("limit", spec.limit);
      out->Add("block_tokens", spec.block_tokens);
      break;
    case Shape::kSynthetic:
    case Shape::kSharedPrompt:
      out->Add("sessions", spec.sessions);
      if (spec.shape == Shape::kSynthetic) out->Add("groups", spec.groups);
      out->Add("prefix", spec.prefix);
      if (spec.shape == Shape::kSharedPrompt) out->Add("history", spec.history);
      out->Add("turns", spec.turns);
      out->Add("input", spec.input);
      out->Add("growth", spec.growth);
      out->Add("output", spec.output);
      out->Add("think", FormatDuration(spec.think));
      out->Add("users", spec.users);
      if (named("arrivals"))
        out->Add("arrivals", spec.arrivals == load::ArrivalOptions::Kind::kConstant  ? "constant"
                             : spec.arrivals == load::ArrivalOptions::Kind::kPoisson ? "poisson"
                                                                                     : "gamma");
      if (options.contains("cv")) out->Add("cv", Number(spec.arrivals_cv));
      break;
  }
}

Result<std::vector<Setting>> ListSettings(const Json& options, std::string_view asked) {
  POOLMARK_ASSIGN_OR_RETURN(const WorkloadSpec spec, ParseStored(options));
  Settings out(options);
  AddShape(spec, options, asked, &out);
  out.Add("token_scale", FormatRatio(spec.token_scale));
  out.Add("seed", std::to_string(spec.seed));
  out.Add("answers", spec.live_answers ? "live" : "recorded");
  out.Add("api", spec.chat ? "chat" : "completions");
  out.Add("prompt", spec.token_ids ? "ids" : "text");
  out.Add("vocabulary", "[" + std::to_string(spec.vocabulary.first) + ", " +
                            std::to_string(spec.vocabulary.first + spec.vocabulary.count) + ")");
  out.Add("ignore_eos", Of(spec.ignore_eos));
  if (options.contains("model")) out.Add("model", spec.model);
  return out.Take();
}

}  // namespace

Result<WorkloadSpec> ParseStored(const Json& options) {
  Json without = options;
  if (without.is_object()) {
    for (const char* key : {"concurrency", "rate", "speedup"}) without.erase(key);
    for (const char* key : {"arrivals", "cv", "users"}) {
      if (without.contains(key)) without["rate"] = kNoRate;
    }
  }
  POOLMARK_ASSIGN_OR_RETURN(WorkloadSpec spec, ParseWorkload(without));
  spec.rate.clear();
  spec.token_scale = Reduced(spec.token_scale);
  return spec;
}

Ratio Reduced(Ratio ratio) {
  const int64_t divisor = std::gcd(ratio.numerator, ratio.denominator);
  return {ratio.numerator / divisor, ratio.denominator / divisor};
}

std::optional<Ratio> StoredScale(const std::string& options) {
  const auto json = ParseJson(options, "options");
  if (!json.ok()) return std::nullopt;
  const auto spec = ParseStored(*json);
  return spec.ok() ? std::optional(spec->token_scale) : std::nullopt;
}

std::string ScaledName(const std::string& name, const std::string& options) {
  return ScaledName(name, StoredScale(options).value_or(Ratio{}));
}

std::string ScaledName(const std::string& name, Ratio token_scale) {
  return token_scale == Ratio{} ? name : name + "@" + FormatRatio(token_scale);
}

Result<std::vector<Setting>> SettingsOf(const Json& options) {
  return ListSettings(options, "");
}

std::optional<std::string> DefaultOf(const Json& options, std::string_view name) {
  if (!options.is_object() || options.contains(name)) return std::nullopt;
  const auto settings = ListSettings(options, name);
  if (!settings.ok()) return std::nullopt;
  for (const Setting& setting : *settings) {
    if (setting.name == name) return setting.value;
  }
  return std::nullopt;
}

std::vector<std::string> ReplayNotes(const WorkloadSpec& spec) {
  std::vector<std::string> out;
  const bool synthetic = HasSessions(spec.shape);
  if (spec.token_scale != Ratio{})
    out.push_back("Token scale " + FormatRatio(spec.token_scale) +
                  ": prompts and answers have that share of the tokens " +
                  (synthetic ? "of their settings." : "that were recorded."));
  if (synthetic) return out;
  if (spec.limit)
    out.push_back("Only the first " + std::to_string(*spec.limit) +
                  (spec.shape == Shape::kAgentic ? " sessions" : " requests") + " of the file are used.");
  if (spec.shape != Shape::kAgentic) return out;
  if (!spec.recorded_think) out.push_back("The recorded think times are left out: users do not pause.");
  if (spec.time_scale != 1)
    out.push_back("Think times are " + Number(spec.time_scale) + " times those that were recorded.");
  if (spec.think_cap) out.push_back("Think times are cut at " + FormatDuration(*spec.think_cap) + ".");
  return out;
}

}  // namespace poolmark::workload
