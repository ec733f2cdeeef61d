#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/json_text.h"
#include "common/quality/plan.h"
#include "common/quality/unicode.h"

namespace poolmark::quality {
namespace {

constexpr int64_t kMostTokensOfASetting = 1'000'000'000;

std::string AsciiLower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

Result<TemplateValue> ValueOf(const std::string& text, const std::string& argument) {
  std::string lower = AsciiLower(text);
  if (lower == "true") return TemplateValue(true);
  if (lower == "false") return TemplateValue(false);
  size_t digits = text.find_first_not_of('-');
  bool number = digits != text.npos && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(digits),
                                                   text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!number) return TemplateValue(text);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidInput("--template-kwargs " + argument, absl::StrCat("'", text, "' is no whole number"));
  }
  return TemplateValue(value);
}

// Their order makes no other plan: the fingerprint sorts keys too.
std::string SortedKwargsJson(TemplateKwargs kwargs) {
  std::sort(kwargs.begin(), kwargs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return TemplateKwargsJson(kwargs);
}

}  // namespace

Result<TemplateKwargs> ParseTemplateKwargs(const std::vector<std::string>& arguments) {
  TemplateKwargs out;
  for (const std::string& argument : arguments) {
    size_t equals = argument.find('=');
    std::string key = equals == argument.npos ? "" : Strip(argument.substr(0, equals));
    if (key.empty())
      return InvalidInput("--template-kwargs " + argument, "KEY=VALUE is needed",
                          "for example enable_thinking=false");
    POOLMARK_ASSIGN_OR_RETURN(TemplateValue value, ValueOf(Strip(argument.substr(equals + 1)), argument));
    auto found = std::find_if(out.begin(), out.end(), [&](const auto& item) { return item.first == key; });
    if (found != out.end()) {
      found->second = std::move(value);
    } else {
      out.emplace_back(std::move(key), std::move(value));
    }
  }
  return out;
}

std::string TemplateKwargsJson(const TemplateKwargs& kwargs) {
  Json out = Json::object();
  for (const auto& [key, value] : kwargs) {
    std::visit([&, name = key](const auto& v) { out[name] = v; }, value);
  }
  return WriteJson(out).value_or("{}");
}

Status CheckSettings(const Settings& s) {
  Errors errors;
  auto fail = [&](const char* where, std::string message, const char* hint = "") {
    errors.push_back({absl::StatusCode::kInvalidArgument, "bad_setting", where, std::move(message), hint});
  };
  bool concatenated = s.scenario == "concatenated";
  if (s.model.empty()) fail("--model", "is empty");
  if (s.task != "qa") fail("--task", absl::StrCat("is '", s.task, "', only qa is known"));
  if (s.scenario != "independent" && s.scenario != "reordered" && !concatenated) {
    fail("--scenario",
         absl::StrCat("is '", s.scenario, "', one of independent, reordered, concatenated is needed"));
  }
  if (s.num_samples < 0)
    fail("--limit", absl::StrCat("is ", s.num_samples, ", at least 0 is needed (0 means every question)"));
  if (s.chunk_size < 1) fail("--chunk-size", absl::StrCat("is ", s.chunk_size, ", at least 1 is needed"));
  if (s.max_output_tokens < 1)
    fail("--max-output-tokens", absl::StrCat("is ", s.max_output_tokens, ", at least 1 is needed"));
  const std::pair<const char*, int64_t> sizes[] = {{"--limit", s.num_samples},
                                                   {"--chunk-size", s.chunk_size},
                                                   {"--max-output-tokens", s.max_output_tokens},
                                                   {"--min-unit-tokens", s.min_unit_tokens.value_or(0)}};
  for (const auto& [name, value] : sizes) {
    if (value > kMostTokensOfASetting)
      fail(name, absl::StrCat("is ", value, ", at most ", kMostTokensOfASetting, " is possible"));
  }
  std::string filler = s.filler.value_or("");
  if (concatenated && filler != "none")
    fail("--filler", "is for scenarios that pad; concatenated has none", "leave it out");
  if (!concatenated && filler != "dots" && filler != "dashes" && filler != "words") {
    fail("--filler", absl::StrCat("is '", filler, "', one of dots, dashes, words is needed"));
  }
  if (concatenated && s.min_unit_tokens.value_or(0) < 1)
    fail("--min-unit-tokens", absl::StrCat("is ", s.min_unit_tokens.value_or(0), ", at least 1 is needed"));
  if (!concatenated && s.min_unit_tokens)
    fail("--min-unit-tokens", "is for the concatenated scenario", "leave it out");
  return errors.empty() ? absl::OkStatus() : ToStatus(errors);
}

std::string SettingsDifferences(const Settings& ours, const Settings& theirs) {
  std::vector<std::string> out;
  auto compare = [&](const char* name, const auto& a, const auto& b) {
    if (a != b) out.push_back(absl::StrCat(name, " is ", a, ", the directory's is ", b));
  };
  compare("model", ours.model, theirs.model);
  compare("dataset", ours.dataset, theirs.dataset);
  compare("task", ours.task, theirs.task);
  compare("scenario", ours.scenario, theirs.scenario);
  compare("num_samples (--limit)", ours.num_samples, theirs.num_samples);
  compare("chunk_size", ours.chunk_size, theirs.chunk_size);
  compare("max_output_tokens", ours.max_output_tokens, theirs.max_output_tokens);
  compare("template_kwargs", SortedKwargsJson(ours.template_kwargs),
          SortedKwargsJson(theirs.template_kwargs));
  compare("seed", ours.seed, theirs.seed);
  compare("filler", ours.filler.value_or("absent"), theirs.filler.value_or("absent"));
  compare("min_unit_tokens", ours.min_unit_tokens.value_or(-1), theirs.min_unit_tokens.value_or(-1));
  std::string text;
  for (const std::string& item : out) absl::StrAppend(&text, text.empty() ? "" : "; ", item);
  return text;
}

std::string PlanDifferences(const Plan& ours, const Plan& directorys) {
  const std::string text = SettingsDifferences(ours.settings, directorys.settings);
  return text.empty() ? "the settings are equal, but the prompts differ: data set, tokenizer or program "
                        "version changed"
                      : text;
}

}  // namespace poolmark::quality
