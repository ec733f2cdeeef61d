#include "common/workload/spec.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/time_format.h"
#include "common/base/units.h"
#include "common/workload/keys.h"

namespace poolmark::workload {
namespace {

constexpr int64_t kMaxCount = 100'000'000;
// Of the prompts of all sessions that are made from settings: 11 hours of 100 000 tokens a second. To count
// what is reusable of so many takes minutes.
constexpr double kMaxPromptTokens = 4e9;
constexpr int64_t kMaxTurns = 2'000;  // memory of a session grows with their square
// Each prompt of a session lists its whole history: turns times turns parts of 16 bytes for every session
// that runs. This many are 1 GiB, on the machine that sends them and on the one that counts what was
// reusable.
constexpr double kMaxParts = 64.0 * 1024 * 1024;

class Reader {
 public:
  Reader(const Json& json, std::string where, Errors* errors)
      : json_(json), where_(std::move(where)), errors_(errors) {}

  bool Has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  void Fail(const std::string& key, std::string message, std::string hint = "") {
    errors_->push_back({absl::StatusCode::kInvalidArgument, "workload", where_ + "." + key,
                        std::move(message), std::move(hint)});
  }

  void Text(const char* key, std::string* out) {
    if (!Has(key)) return;
    if (!json_[key].is_string()) return Fail(key, "is " + Show(key) + ", must be a text");
    *out = json_[key].get<std::string>();
  }

  void Whole(const char* key, int64_t low, int64_t high, int64_t* out) {
    if (!Has(key)) return;
    const auto value = ToWhole(json_[key]);
    if (!value || *value < low || *value > high) {
      return Fail(key, "is " + Show(key) + ", must be a whole number from " + std::to_string(low) + " to " +
                           std::to_string(high));
    }
    *out = *value;
  }

  void Whole(const char* key, int64_t low, int64_t high, std::optional<int64_t>* out) {
    if (!Has(key)) return;
    int64_t value = low - 1;
    Whole(key, low, high, &value);
    if (value >= low) *out = value;
  }

  void Flag(const char* key, bool* out) {
    if (!Has(key)) return;
    if (!json_[key].is_boolean()) return Fail(key, "is " + Show(key) + ", must be true or false");
    *out = json_[key].get<bool>();
  }

  // The index in `names`, or nothing (and an error where the key is there).
  std::optional<size_t> Choice(const char* key, const std::vector<std::string>& names) {
    if (!Has(key)) return std::nullopt;
    if (json_[key].is_string()) {
      const auto at = std::find(names.begin(), names.end(), json_[key].get<std::string>());
      if (at != names.end()) return static_cast<size_t>(at - names.begin());
    }
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
    Fail(key, "is " + Show(key) + ", must be one of " + all);
    return std::nullopt;
  }

  void Duration(const char* key, Nanoseconds low, Nanoseconds high, std::optional<Nanoseconds>* out) {
    if (!Has(key)) return;
    std::optional<Nanoseconds> value;
    if (json_[key].is_number()) {
      const double seconds = json_[key].get<double>();
      if (std::isfinite(seconds) && std::abs(seconds) < 1e9) value = Nanoseconds(std::llround(seconds * 1e9));
    } else if (json_[key].is_string()) {
      if (auto parsed = ParseDuration(json_[key].get<std::string>()); parsed.ok()) value = *parsed;
    }
    if (!value) return Fail(key, "is " + Show(key) + ", must be a duration such as 2s, 20m or 1h30m");
    if (*value < low || *value > high) {
      return Fail(key, "is " + FormatDuration(*value) + ", must be from " + FormatDuration(low) + " to " +
                           FormatDuration(high));
    }
    *out = *value;
  }

  // A number or a list of numbers, all in [low, high].
  template <class T>
  void Numbers(const char* key, double low, double high, std::vector<T>* out) {
    if (!Has(key)) return;
    const Json& value = json_[key];
    const Json list = value.is_array() ? value : Json::array({value});
    if (list.empty()) return Fail(key, "is an empty list: give at least one level");
    for (const Json& item : list) {
      const auto number = item.is_number() ? std::optional<double>(item.get<double>()) : std::nullopt;
      const bool whole = number && *number == std::floor(*number);
      if (!number || *number < low || *number > high || (std::is_integral_v<T> && !whole)) {
        Fail(key, "has the level " + item.dump() + ", must be a " +
                      (std::is_integral_v<T> ? "whole number" : "number") + " from " + Short(low) + " to " +
                      Short(high));
        continue;
      }
      if (std::find(out->begin(), out->end(), static_cast<T>(*number)) != out->end()) {
        Fail(key, "names the level " + item.dump() + " twice");
        continue;
      }
      out->push_back(static_cast<T>(*number));
    }
  }

  const Json& operator[](const char* key) const { return json_[key]; }

 private:
  static std::string Short(double value) {
    return value == std::floor(value) && std::abs(value) < 1e15 ? std::to_string(static_cast<int64_t>(value))
                                                                : Json(value).dump();
  }
  std::string Show(const char* key) const {
    std::string text = json_[key].dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
  }
  static std::optional<int64_t> ToWhole(const Json& value) {
    if (value.is_number_unsigned()) {
      const auto wide = value.get<uint64_t>();
      return wide > static_cast<uint64_t>(INT64_MAX) ? std::nullopt : std::optional<int64_t>(wide);
    }
    if (value.is_number_integer()) return value.get<int64_t>();
    return std::nullopt;
  }

  const Json& json_;
  std::string where_;
  Errors* errors_;
};

// The keys that each shape takes, besides the common ones.
const std::map<Shape, std::vector<std::string>>& ShapeKeys() {
  static const std::map<Shape, std::vector<std::string>> keys = {
      {Shape::kAgentic,
       {"file", "limit", "token_scale", "load_duration", "warm_up", "think", "think_cap", "time_scale",
        "start", "concurrency"}},
      {Shape::kSharedPrompt,
       {"sessions", "prefix", "history", "turns", "input", "growth", "output", "think", "token_scale",
        "concurrency", "rate", "users", "arrivals", "cv"}},
      {Shape::kSynthetic,
       {"sessions", "groups", "prefix", "turns", "input", "growth", "output", "think", "token_scale",
        "concurrency", "rate", "users", "arrivals", "cv"}},
      {Shape::kTrace, {"file", "format", "limit", "token_scale", "block_tokens", "speedup"}},
  };
  return keys;
}

const std::vector<std::string>& CommonKeys() {
  static const std::vector<std::string> keys = {"shape", "name",   "seed",       "marker", "answers",
                                                "api",   "prompt", "vocabulary", "model",  "ignore_eos"};
  return keys;
}

void CheckKeys(const Json& json, Shape shape, const std::string& where, Reader* reader) {
  std::vector<std::string> known = CommonKeys();
  const auto& own = ShapeKeys().at(shape);
  known.insert(known.end(), own.begin(), own.end());
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (key == "load_duration" || key == "warm_up") {
      reader->Fail(key, "is not a setting of the " + std::string(Name(shape)) + " shape",
                   "only agentic replay holds its load for a set time; leave it out");
      continue;
    }
    const std::string near = NearestKey(key, known);
    reader->Fail(key, "is no setting of the " + std::string(Name(shape)) + " shape",
                 near.empty() ? "known settings are in docs/workloads.md" : "did you mean '" + near + "'?");
  }
  (void)where;
}

void ReadRequests(Reader* reader, WorkloadSpec* spec) {
  int64_t seed = static_cast<int64_t>(spec->seed);
  reader->Whole("seed", 0, INT64_MAX, &seed);
  spec->seed = static_cast<uint64_t>(seed);
  reader->Text("marker", &spec->marker);
  reader->Text("model", &spec->model);
  reader->Flag("ignore_eos", &spec->ignore_eos);
  if (const auto at = reader->Choice("answers", {"recorded", "live"})) spec->live_answers = *at == 1;
  if (const auto at = reader->Choice("api", {"completions", "chat"})) spec->chat = *at == 1;
  spec->token_ids = !spec->chat && !spec->live_answers;
  if (const auto at = reader->Choice("prompt", {"ids", "text"})) {
    spec->token_ids = *at == 0;
    if (spec->token_ids && spec->chat)
      reader->Fail("prompt", "is ids, but the chat API takes text only", "use api: completions");
    if (spec->token_ids && spec->live_answers) {
      reader->Fail("prompt", "is ids, but live answers are text", "use prompt: text or answers: recorded");
    }
  }
  if (reader->Has("vocabulary")) {
    const Json& range = (*reader)["vocabulary"];
    const bool good = range.is_array() && range.size() == 2 && range[0].is_number_unsigned() &&
                      range[1].is_number_unsigned() && range[0].get<uint64_t>() < range[1].get<uint64_t>() &&
                      range[1].get<uint64_t>() <= (1u << 24);
    if (!good) {
      reader->Fail("vocabulary",
                   "must be [first, end), two token ids below 16777216 of which the first is smaller");
    } else {
      const auto first = range[0].get<uint32_t>();
      spec->vocabulary = {first, range[1].get<uint32_t>() - first};
      if (spec->vocabulary.count < 16)
        reader->Fail("vocabulary", "holds fewer than 16 tokens: prompts would repeat");
    }
  }
}

// Numbers, or texts with steps and ramps.
void ReadRates(Reader* reader, WorkloadSpec* spec) {
  if (reader->Has("rate")) {
    const Json& value = (*reader)["rate"];
    const Json list = value.is_array() ? value : Json::array({value});
    if (list.empty()) reader->Fail("rate", "is an empty list: give at least one level");
    for (const Json& item : list) {
      RateLevel level;
      if (item.is_number()) {
        level.value = item.get<double>();
        if (level.value < 1e-6 || level.value > 1e6)
          reader->Fail("rate", "has the level " + item.dump() + ", must be a number from 1e-6 to 1e6");
      } else if (item.is_string()) {
        const auto steps = load::ParseRate(item.get<std::string>());
        if (!steps.ok()) {
          reader->Fail("rate", "has a wrong level: " + std::string(steps.status().message()));
          continue;
        }
        level.value = steps->front().from;
        if (steps->size() > 1 || steps->front().duration > Nanoseconds(0))
          level.steps = item.get<std::string>();
      } else {
        reader->Fail("rate", "has the level " + item.dump(-1, ' ', false, Json::error_handler_t::replace) +
                                 ", must be a number or a text such as 10-100:60s");
        continue;
      }
      const bool twice = std::any_of(spec->rate.begin(), spec->rate.end(), [&](const RateLevel& other) {
        return other.value == level.value && other.steps == level.steps;
      });
      if (twice) reader->Fail("rate", "names the level " + item.dump() + " twice");
      spec->rate.push_back(std::move(level));
    }
  }
  const auto kind = reader->Choice("arrivals", {"constant", "poisson", "gamma"});
  if (kind) spec->arrivals = static_cast<load::ArrivalOptions::Kind>(*kind);
  if (kind && spec->rate.empty())
    reader->Fail("arrivals", "belongs to a rate, and this workload has none",
                 "add `rate: [5]` or leave it out");
  const bool gamma = spec->arrivals == load::ArrivalOptions::Kind::kGamma;
  if (reader->Has("cv")) {
    std::vector<double> one;
    reader->Numbers("cv", 0.01, 100, &one);
    if (one.size() == 1) spec->arrivals_cv = one[0];
    if (one.size() > 1) reader->Fail("cv", "is a list, must be one number");
    if (!gamma) reader->Fail("cv", "belongs to arrivals: gamma");
  } else if (gamma) {
    reader->Fail("cv", "is missing", "gamma arrivals need the coefficient of variation of their gaps");
  }
}

void ReadScale(Reader* reader, WorkloadSpec* spec) {
  if (!reader->Has("token_scale")) return;
  const Json& value = (*reader)["token_scale"];
  const auto ratio = ParseRatio(value.is_string() ? value.get<std::string>() : value.dump());
  if (!ratio.ok() || ratio->value() > 1 || ratio->value() < 1.0 / 65536) {
    return reader->Fail("token_scale",
                        "is " + value.dump() + ", must be a share from 1/65536 to 1, such as 1/32");
  }
  spec->token_scale = *ratio;
}

void ReadSessions(Reader* reader, WorkloadSpec* spec) {
  reader->Whole("sessions", 1, kMaxCount, &spec->sessions);
  reader->Whole("prefix", 0, kMaxTokens, &spec->prefix);
  // A session holds every turn with all that came before it.
  reader->Whole("turns", 1, kMaxTurns, &spec->turns);
  reader->Whole("input", 1, kMaxTokens, &spec->input);
  reader->Whole("growth", 0, kMaxTokens, &spec->growth);
  reader->Whole("output", 1, 1'000'000, &spec->output);
  for (const char* key : {"input", "output"}) {
    if (!reader->Has(key)) reader->Fail(key, "is missing", "give the number of tokens");
  }
  if (spec->shape == Shape::kSynthetic) {
    reader->Whole("groups", 1, kMaxCount, &spec->groups);
  } else {
    reader->Whole("history", 0, kMaxTokens, &spec->history);
    if (!reader->Has("prefix"))
      reader->Fail("prefix", "is missing", "give the tokens of the shared system prompt");
    if (!reader->Has("growth")) spec->growth = spec->input;
  }
  std::optional<Nanoseconds> think;
  reader->Duration("think", Nanoseconds(0), std::chrono::hours(24), &think);
  spec->think = think.value_or(Nanoseconds(0));
  if (spec->sessions * spec->turns > kMaxRequests) {
    reader->Fail("sessions",
                 "times turns is " + std::to_string(spec->sessions * spec->turns) + " requests, at most " +
                     std::to_string(kMaxRequests) + " are planned",
                 "lower sessions or turns");
  }
  if (spec->prefix + spec->history + spec->input + spec->turns * (spec->growth + spec->output) > kMaxTokens) {
    reader->Fail("turns", "makes prompts of more than " + std::to_string(kMaxTokens) + " tokens",
                 "lower turns, growth or output");
  }
}

// Sessions that run at once at the highest level.
double SessionsAtOnce(const WorkloadSpec& spec) {
  double most = 1;
  for (const int64_t users : spec.concurrency) most = std::max(most, static_cast<double>(users));
  const double think = std::max(std::chrono::duration<double>(spec.think).count(), 1.0);
  for (const RateLevel& level : spec.rate) {
    most = std::max(most, spec.users ? static_cast<double>(*spec.users) : std::ceil(level.value * think));
  }
  return std::min(most, static_cast<double>(spec.sessions));
}

void CheckHistory(Reader* reader, const WorkloadSpec& spec) {
  const double turns = static_cast<double>(spec.turns), at_once = SessionsAtOnce(spec);
  if (turns * turns * at_once <= kMaxParts) return;
  const auto most = static_cast<int64_t>(std::sqrt(kMaxParts / at_once));
  reader->Fail("turns",
               "is " + std::to_string(spec.turns) + " with " + std::to_string(static_cast<int64_t>(at_once)) +
                   " sessions at once, whose prompts with their histories would not fit into 1 GiB",
               "at most " + std::to_string(most) + " turns with so many sessions");
}

// Prompt tokens of all sessions: the first prompt of each, and for every later one the history before it.
void CheckTokens(Reader* reader, const WorkloadSpec& spec) {
  const auto scaled = [&](int64_t tokens) {
    return static_cast<double>(ScaleTokens(tokens, spec.token_scale));
  };
  const double turns = static_cast<double>(spec.turns);
  const double first = scaled(spec.prefix) + scaled(spec.history) + scaled(spec.input);
  const double later = scaled(spec.growth) + scaled(spec.output);
  const double all = static_cast<double>(spec.sessions) * (turns * first + turns * (turns - 1) / 2 * later);
  if (all <= kMaxPromptTokens) return;
  const auto text = [](double tokens) { return std::to_string(static_cast<int64_t>(tokens)); };
  reader->Fail("sessions",
               "with their turns make " + text(all) + " prompt tokens in all, at most " +
                   text(kMaxPromptTokens) + " are planned",
               "lower sessions, turns, growth or output");
}

void ReadAgentic(Reader* reader, WorkloadSpec* spec) {
  reader->Text("file", &spec->file);
  if (spec->file.empty()) reader->Fail("file", "is missing", "name a session file (one JSON object a line)");
  reader->Whole("limit", 1, kMaxCount, &spec->limit);
  reader->Duration("load_duration", std::chrono::seconds(120), std::chrono::seconds(14400),
                   &spec->load_duration);
  reader->Duration("warm_up", Nanoseconds(0), std::chrono::seconds(3600), &spec->warm_up);
  if (!spec->load_duration) spec->load_duration = kDefaultLoadDuration;
  if (!spec->warm_up) {
    // The default must fit a short load too: it is refused rather than changed silently.
    spec->warm_up = kDefaultWarmUp;
  }
  if (2 * *spec->warm_up >= *spec->load_duration) {
    reader->Fail("warm_up",
                 "is " + FormatDuration(*spec->warm_up) + ", must be less than half the load duration of " +
                     FormatDuration(*spec->load_duration),
                 "shorten warm_up or lengthen load_duration");
  }
  if (const auto at = reader->Choice("think", {"recorded", "none"})) spec->recorded_think = *at == 0;
  for (const char* key : {"think_cap", "time_scale"}) {
    if (!spec->recorded_think && reader->Has(key))
      reader->Fail(key, "belongs to think: recorded, and this workload has think: none",
                   "leave one of them out");
  }
  reader->Duration("think_cap", Nanoseconds(0), std::chrono::hours(24), &spec->think_cap);
  if (reader->Has("time_scale")) {
    std::vector<double> one;
    reader->Numbers("time_scale", 0, 1000, &one);
    if (!one.empty()) spec->time_scale = one[0];
  }
  if (reader->Has("start")) {
    std::vector<double> range;
    const Json& value = (*reader)["start"];
    if (value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number()) {
      spec->start_from = value[0].get<double>();
      spec->start_to = value[1].get<double>();
    } else {
      spec->start_from = -1;
    }
    if (!(spec->start_from >= 0 && spec->start_from <= spec->start_to && spec->start_to <= 1)) {
      reader->Fail("start", "is " + value.dump() +
                                ", must be [from, to] with 0 <= from <= to <= 1, such as [0.25, 0.75]");
    }
  }
  if (spec->start_to > 0 && *spec->warm_up <= Nanoseconds(0)) {
    reader->Fail("start", "begins sessions after a primer, which is sent in the warm-up, and warm_up is 0s",
                 "give a warm_up or leave out start");
  }
  if (spec->live_answers) {
    reader->Fail("answers", "is live, but the data set records its prompts only as block ids",
                 "use answers: recorded; live answers work with synthetic and shared-prompt");
  }
}

void ReadTrace(Reader* reader, WorkloadSpec* spec) {
  reader->Text("file", &spec->file);
  if (spec->file.empty()) reader->Fail("file", "is missing", "name a trace file");
  const auto at =
      reader->Choice("format", {"mooncake", "qwen-bailian", "azure-2023", "azure-2024", "burstgpt"});
  if (at) {
    spec->format = static_cast<TraceFormat>(*at);
  } else if (!reader->Has("format")) {
    reader->Fail("format", "is missing", "use mooncake, qwen-bailian, azure-2023, azure-2024 or burstgpt");
  }
  reader->Whole("limit", 1, kMaxCount, &spec->limit);
  reader->Whole("block_tokens", 1, 65536, &spec->block_tokens);
  const bool has_blocks = spec->format == TraceFormat::kMooncake || spec->format == TraceFormat::kQwenBailian;
  if (at && !has_blocks && reader->Has("block_tokens"))
    reader->Fail("block_tokens",
                 "does nothing: traces of the format " + std::string(Name(spec->format)) + " have no blocks",
                 "leave it out");
  reader->Numbers("speedup", 1e-6, 1e6, &spec->speedup);
  if (spec->live_answers) {
    reader->Fail("answers", "is live, but a trace fixes its prompts", "use answers: recorded");
  }
}

}  // namespace

std::string_view Name(Shape shape) {
  static constexpr std::string_view names[] = {"agentic", "shared-prompt", "synthetic", "trace"};
  return names[static_cast<int>(shape)];
}

std::string_view Name(TraceFormat format) {
  static constexpr std::string_view names[] = {"mooncake", "qwen-bailian", "azure-2023", "azure-2024",
                                               "burstgpt"};
  return names[static_cast<int>(format)];
}

int64_t ScaleTokens(int64_t tokens, Ratio scale) {
  if (tokens <= 0) return 0;
  const auto up =
      (static_cast<__int128_t>(tokens) * scale.numerator + scale.denominator - 1) / scale.denominator;
  return std::max<int64_t>(1, static_cast<int64_t>(up));
}

Result<WorkloadSpec> ParseWorkload(const Json& json, const std::string& where) {
  if (!json.is_object()) return InvalidInput(where, "must be an object with a `shape`");
  Errors errors;
  WorkloadSpec spec;
  Reader reader(json, where, &errors);
  const auto shape = reader.Choice("shape", {"agentic", "shared-prompt", "synthetic", "trace"});
  if (!shape) {
    if (errors.empty()) reader.Fail("shape", "is missing", "use agentic, shared-prompt, synthetic or trace");
    return ToStatus(errors);
  }
  spec.shape = static_cast<Shape>(*shape);
  CheckKeys(json, spec.shape, where, &reader);
  ReadRequests(&reader, &spec);
  ReadScale(&reader, &spec);
  if (spec.shape == Shape::kAgentic) {
    ReadAgentic(&reader, &spec);
  } else if (spec.shape == Shape::kTrace) {
    ReadTrace(&reader, &spec);
  } else {
    ReadSessions(&reader, &spec);
  }
  if (spec.shape != Shape::kTrace) {
    reader.Numbers("concurrency", 1, 1e6, &spec.concurrency);
    if (spec.shape != Shape::kAgentic) {
      ReadRates(&reader, &spec);
      reader.Whole("users", 1, 1'000'000, &spec.users);
      CheckTokens(&reader, spec);
      CheckHistory(&reader, spec);
    }
  }
  if (!errors.empty()) return ToStatus(errors);
  return spec;
}

Status CheckLevels(const WorkloadSpec& spec, const std::string& where) {
  if (!spec.users || !spec.rate.empty()) return absl::OkStatus();
  return InvalidInput(where + ".users", "belongs to a rate, and this workload has none",
                      "add `rate: [5]`, or say with `concurrency` how many users there are");
}

load::ArrivalOptions ArrivalsOf(const WorkloadSpec& spec, const RateLevel& level, uint64_t seed) {
  load::ArrivalOptions options;
  options.kind = spec.arrivals;
  options.cv = spec.arrivals_cv;
  options.seed = seed;
  if (level.steps.empty()) {
    options.steps = {{Nanoseconds(0), level.value, level.value}};
  } else if (auto steps = load::ParseRate(level.steps); steps.ok()) {
    options.steps = *std::move(steps);
  }
  return options;
}

std::string MeasuredLine(const WorkloadSpec& spec) {
  if (spec.shape != Shape::kAgentic) return "Measured over the whole run";
  return MeasuredLine(*spec.load_duration - *spec.warm_up, *spec.warm_up);
}

std::string MeasuredLine(Nanoseconds measured, Nanoseconds warm_up) {
  const auto text = [](Nanoseconds time) {
    // Clocks of several machines put a bound off by less than a hundredth.
    const double seconds = std::round(std::chrono::duration<double>(time).count() * 100) / 100;
    const bool minutes = seconds >= 60 && std::fmod(seconds, 60) == 0;
    const double value = minutes ? seconds / 60 : seconds;
    std::string number = PythonFloat(std::round(value * 100) / 100);
    if (number.ends_with(".0")) number.resize(number.size() - 2);
    return number + (minutes ? " min" : " s");
  };
  return "Measured over " + text(measured) + " after a " + text(warm_up) + " warm-up";
}

}  // namespace poolmark::workload
