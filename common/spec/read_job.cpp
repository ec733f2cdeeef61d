#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/units.h"
#include "common/spec/read.h"
#include "common/spec/stack_parts.h"
#include "common/workload/spec.h"

namespace poolmark::spec {
namespace {

// A bare name of the installed catalogue has no slash and no .yaml.
bool IsCatalogueName(const std::string& name) {
  return name.find('/') == std::string::npos && !absl::StrContains(name, ".yaml") &&
         !absl::StrContains(name, ".yml");
}

// The workload library names errors "<where>.<key>: text"; put the line and column of that key before it.
void AddWorkloadErrors(const Value& value, const Status& status, const std::string& name) {
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    std::string text(line);
    std::string prefix = absl::StrCat(name, ".");
    std::string key;
    if (text.rfind(prefix, 0) == 0) {
      size_t colon = text.find(": ");
      key = text.substr(prefix.size(), colon == text.npos ? text.npos : colon - prefix.size());
      text = colon == text.npos ? "" : text.substr(colon + 2);
    }
    for (const auto& [member, child] : value.Members()) {
      if (member == key) {
        child.Fail(text);
        text.clear();
        break;
      }
    }
    if (!text.empty()) value.Fail(key.empty() ? text : absl::StrCat("'", key, "' ", text));
  }
}

std::vector<LoadLevel> Levels(const workload::WorkloadSpec& spec) {
  std::vector<LoadLevel> levels;
  for (int64_t value : spec.concurrency)
    levels.push_back({LoadLevel::Kind::kConcurrency, static_cast<double>(value), ""});
  for (const auto& rate : spec.rate) levels.push_back({LoadLevel::Kind::kRate, rate.value, rate.steps});
  for (double value : spec.speedup) levels.push_back({LoadLevel::Kind::kSpeedup, value, ""});
  return levels;
}

std::optional<WorkloadSpec> ReadWorkload(const std::string& name, const Value& value) {
  if (!IsName(name)) {
    value.Fail(absl::StrCat("'", name, "' is no name for a workload"),
               "use lower case letters, digits, '.', '_' and '-'");
    return std::nullopt;
  }
  if (!value.is_map()) {
    value.Fail("a map with a `shape` is needed");
    return std::nullopt;
  }
  Json json = value.ToJson();
  auto parsed = workload::ParseWorkload(json, value.path());
  if (!parsed.ok()) {
    AddWorkloadErrors(value, parsed.status(), value.path());
    return std::nullopt;
  }
  if (const Status levels = workload::CheckLevels(*parsed, value.path()); !levels.ok())
    AddWorkloadErrors(value, levels, value.path());
  WorkloadSpec workload;
  workload.name = name;
  workload.where = value.Where();
  workload.shape = std::string(workload::Name(parsed->shape));
  workload.file = parsed->file;
  workload.load_duration = parsed->load_duration;
  workload.warm_up = parsed->warm_up;
  workload.text_prompts = !parsed->token_ids;
  workload.levels = Levels(*parsed);
  if (workload.levels.empty() && parsed->shape == workload::Shape::kTrace)
    workload.levels = {{LoadLevel::Kind::kSpeedup, 1, ""}};
  if (workload.levels.empty()) value.Fail("has no load level", "add `concurrency: [16]` or `rate: [5]`");
  for (const char* key : {"concurrency", "rate", "speedup"}) json.erase(key);
  workload.options_json = json.dump();
  return workload;
}

// Splits "<as>.<param>" by the stacks' names; a name without a dot goes to every stack that has it.
void ApplySets(const std::map<std::string, std::string>& set, JobSpec* job, Errors* errors) {
  auto fail = [&](const std::string& key, std::string message, std::string hint) {
    errors->push_back({absl::StatusCode::kInvalidArgument, "set", absl::StrCat("--set ", key),
                       std::move(message), std::move(hint)});
  };
  for (const auto& [key, value] : set) {
    size_t dot = key.find('.');
    bool used = false;
    std::vector<std::string> known;
    for (StackSpec& stack : job->stacks) {
      for (auto& [name, current] : stack.params) {
        known.push_back(absl::StrCat(stack.name, ".", name));
        if (key == known.back() || (dot == key.npos && key == name)) {
          current = value;
          used = true;
          if (const std::string wrong = ParamError(value); !wrong.empty())
            fail(key, wrong, "write the value");
        }
      }
    }
    if (!used)
      fail(key, "is no parameter of a stack of this job",
           absl::StrCat("known: ", absl::StrJoin(known, ", ")));
  }
}

// `gpus: "${tp}"` of a process, once its stack's parameters have their values.
void CountGpus(JobSpec* job, Errors* errors) {
  for (StackSpec& stack : job->stacks) {
    for (ProcessTemplate& process : stack.processes) {
      if (process.gpus_param.empty()) continue;
      auto fail = [&](std::string message, std::string hint) {
        errors->push_back({absl::StatusCode::kInvalidArgument, "spec",
                           absl::StrCat("stack ", stack.name, ", process ", process.name, ", gpus"),
                           std::move(message), std::move(hint)});
      };
      const auto param = stack.params.find(process.gpus_param);
      unsigned count = 0;
      if (param == stack.params.end()) {
        fail(absl::StrCat("'", process.gpus_param, "' is no parameter of the stack"),
             "name one of its params");
      } else if (!absl::SimpleAtoi(param->second, &count) || count > 1024) {
        fail(absl::StrCat("parameter ", process.gpus_param, " is '", param->second,
                          "', a whole number from 0 to 1024 is needed"),
             absl::StrCat("set it: --set ", stack.name, ".", process.gpus_param, "=8"));
      } else {
        process.gpus = count;
      }
    }
  }
}

void ReadStacks(const Value& list, const Files& files, const Names& known_names, JobSpec* job) {
  Errors* errors = list.errors();
  std::set<std::string> names;
  std::set<std::string> broken;  // files whose errors are told already
  for (const Value& value : list.List()) {
    StackUse use;
    if (value.is_text()) {
      use.use = *value.Text();
    } else {
      Map map(value);
      if (auto text = map.Need("use", "a stack file or a name of the catalogue"))
        use.use = text->Text().value_or("");
      map.Text("as", &use.as);
      map.TextMap("set", &use.set);
      map.Finish();
    }
    if (use.use.empty()) continue;
    if (use.as.empty()) {
      size_t slash = use.use.rfind('/');
      use.as = slash == use.use.npos ? use.use : use.use.substr(slash + 1);
      if (size_t dot = use.as.rfind(".y"); dot != use.as.npos) use.as.resize(dot);
    }
    if (!IsName(use.as))
      value.Fail(absl::StrCat("'", use.as, "' is no name for a stack"),
                 "set `as:` to lower case letters, digits and '-'");
    if (!names.insert(use.as).second)
      value.Fail(absl::StrCat("two stacks are called '", use.as, "'"), "give one an `as:` of its own");
    job->uses.push_back(use);
    if (broken.count(use.use) != 0) continue;
    auto text = files(use.use);
    if (!text.ok()) {
      const Error error = ErrorOf(text.status());
      value.Fail(absl::StrCat("stack '", use.use, "' cannot be read: ", error.message), error.hint);
      continue;
    }
    auto stack = ReadStack(*text, use.use, errors, known_names);
    if (!stack.ok()) {
      broken.insert(use.use);
      continue;
    }
    stack->name = use.as;
    for (const auto& [name, setting] : use.set) {
      auto param = stack->params.find(name);
      if (param == stack->params.end()) {
        std::vector<std::string> known;
        for (const auto& member : stack->params) known.push_back(member.first);
        std::string near = Nearest(name, known);
        value.Fail(absl::StrCat("sets '", name, "', which is no parameter of ", use.use),
                   near.empty() ? absl::StrCat("its parameters: ", absl::StrJoin(known, ", "))
                                : absl::StrCat("did you mean '", near, "'?"));
      } else {
        param->second = setting;
        if (const std::string wrong = ParamError(setting); !wrong.empty())
          value.Fail(absl::StrCat(name, ": ", wrong), "write the value");
      }
    }
    job->stacks.push_back(*std::move(stack));
  }
  if (list.is_list() && list.List().empty()) list.Fail("is empty, at least one stack is needed");
}

// `presets`: the names that are known; none: not checked here.
void ReadSlo(const Value& value, const std::vector<std::string>& presets, JobSpec* job) {
  job->slo = value.Texts();
  if (presets.empty()) return;
  for (const std::string& name : job->slo) {
    if (std::find(presets.begin(), presets.end(), name) != presets.end()) continue;
    const std::string near = Nearest(name, presets);
    value.Fail(absl::StrCat("'", name, "' is no preset"),
               near.empty() ? absl::StrCat("known: ", absl::StrJoin(presets, ", "))
                            : absl::StrCat("did you mean '", near, "'?"));
  }
}

void ReadPreflight(const Value& value, JobSpec* job) {
  Map map(value);
  if (auto line = map.Get("line_rate")) {
    if (line->is_text()) {
      if (line->OneOf({"off"})) job->line_rate = false;
    } else {
      Map inner(*line);
      inner.Whole("runs", 1, 20, &job->line_rate_runs);
      inner.Whole("seconds", 1, 60, &job->line_rate_seconds);  // a call to an agent takes 90 s
      inner.Finish();
    }
  }
  map.Finish();
}

AccuracySpec ReadAccuracy(const Value& value) {
  AccuracySpec read;
  Map map(value);
  if (auto dataset = map.Need("dataset", "hotpotqa, musique or a file")) {
    read.dataset = dataset->Text().value_or("");
    if (read.dataset.empty()) dataset->Fail("is empty", "write hotpotqa, musique or a file");
  }
  map.Text("reference", &read.reference);
  map.OneOf("metric", {"match", "f1", "judge"}, &read.metric);
  map.OneOf("scenario", {"independent", "reordered", "concatenated"}, &read.scenario);
  map.Whole("limit", 0, 1'000'000, &read.limit);
  map.Whole("max_output_tokens", 1, 1'000'000, &read.max_output_tokens);
  map.Whole("reference_repeats", 1, 100, &read.reference_repeats);
  if (auto tolerance = map.Get("tolerance"))
    read.tolerance = tolerance->Number(0, 1).value_or(read.tolerance);
  auto judge = map.Get("judge");
  if (judge) {
    Map inner(*judge);
    if (auto url = inner.Need("url")) read.judge_url = url->Text().value_or("");
    if (auto model = inner.Need("model")) read.judge_model = model->Text().value_or("");
    inner.Text("key_file", &read.judge_key);
    inner.Finish();
    if (read.metric != "judge")
      judge->Fail(absl::StrCat("is for the metric judge, the metric is ", read.metric), "set metric: judge");
  } else if (read.metric == "judge") {
    value.Fail("the metric judge needs a judge", "add `judge: {url: http://…, model: …}`");
  }
  map.Finish();
  return read;
}

// The stack of the reference arm must be one of the job's and compute without loss.
void CheckReference(const Value& root, const JobSpec& job) {
  if (!job.accuracy || job.accuracy->reference.empty() || job.stacks.empty()) return;
  for (const StackSpec& stack : job.stacks) {
    if (stack.name != job.accuracy->reference) continue;
    if (stack.kv.compression != "none")
      root.Fail(absl::StrCat("accuracy.reference '", stack.name, "' compresses KV (", stack.kv.compression,
                             "), so its answers are no reference"),
                "name a stack without compression");
    return;
  }
  root.Fail(absl::StrCat("accuracy.reference '", job.accuracy->reference, "' is none of the job's stacks"));
}

void ReadLoad(const Value& value, const std::vector<WorkloadSpec>& workloads, LoadSpec* load) {
  Map map(value);
  if (auto machines = map.Get("machines")) {
    std::set<std::string> seen;
    for (const Value& one : machines->List()) {
      const std::string name = one.Text().value_or("");
      if (!name.empty() && !seen.insert(name).second)
        one.Fail(absl::StrCat("machine '", name, "' stands twice"), "one load process runs on each");
      load->machines.push_back(name);
    }
    if (machines->is_list() && load->machines.empty())
      machines->Fail("is empty", "name machines of the pool, or leave it out for the head alone");
  }
  if (auto after = map.Get("start_after")) {
    if (load->machines.size() < 2)
      after->Fail("is for several load machines, which begin together", "leave it out");
    if (auto time = after->Duration(std::chrono::seconds(1), std::chrono::minutes(30)))
      load->start_after = *time;
  }
  if (auto stall = map.Get("stall")) {
    if (stall->is_text() && stall->Text() == "off") {
      load->stall.reset();
    } else if (auto time = stall->Duration(std::chrono::seconds(5), std::chrono::hours(24))) {
      load->stall = *time;
    }
  }
  if (auto tokenizer = map.Get("tokenizer")) {
    load->tokenizer = tokenizer->Text().value_or("");
    if (!load->tokenizer.starts_with('/')) {
      tokenizer->Fail(absl::StrCat("'", load->tokenizer, "' is no absolute path"),
                      "name a tokenizer.json or its directory on the machines that send the load");
    } else if (std::none_of(workloads.begin(), workloads.end(),
                            [](const WorkloadSpec& workload) { return workload.text_prompts; })) {
      tokenizer->Fail(
          "counts prompts of text, and every workload sends token ids, which need nobody to count",
          "leave it out, or write `prompt: text` or `api: chat` in a workload");
    }
  }
  map.Finish();
}

}  // namespace

Result<JobSpec> ReadJob(std::string_view yaml, const std::string& where, const Files& files,
                        const std::map<std::string, std::string>& set, Errors* errors, const Names& names) {
  size_t before = errors->size();
  JobSpec job;
  auto root = Value::Parse(yaml, where, errors);
  if (!root) return ToStatus(*errors);
  Map map(*root);
  CheckVersion(&map);
  if (auto pool = map.Need("pool", "the pool file")) {
    job.pool_file = pool->Text().value_or("");
    auto text = files(job.pool_file);
    if (!text.ok()) {
      const Error error = ErrorOf(text.status());
      pool->Fail(absl::StrCat("'", job.pool_file, "' cannot be read: ", error.message), error.hint);
    } else if (auto read = ReadPool(*text, job.pool_file, errors); read.ok()) {
      job.pool = *std::move(read);
    }
  }
  if (auto stacks = map.Need("stacks", "list the stacks to run")) ReadStacks(*stacks, files, names, &job);
  auto baseline = map.Get("baseline");
  if (baseline) job.baseline = baseline->Text().value_or("");
  if (auto workloads = map.Need("workloads", "a map of scenarios")) {
    for (const auto& [name, value] : workloads->Members()) {
      auto workload = ReadWorkload(name, value);
      if (!workload) continue;
      if (!workload->file.empty()) {
        // Only whether it is there: traces are larger than what `files` reads.
        if (auto text = files(workload->file); text.status().code() == absl::StatusCode::kNotFound) {
          const Error error = ErrorOf(text.status());
          value.Fail(absl::StrCat("workload file '", workload->file, "' cannot be read: ", error.message),
                     error.hint);
        }
      }
      job.workloads.push_back(*std::move(workload));
    }
    if (workloads->is_map() && workloads->Members().empty())
      workloads->Fail("is empty, at least one workload is needed");
  }
  map.Whole("repeats", 1, 1000, &job.repeats);
  map.OneOf("starting_state", {"empty", "warm"}, &job.starting_state);
  if (auto slo = map.Get("slo")) ReadSlo(*slo, names.presets, &job);
  if (auto preflight = map.Get("preflight")) ReadPreflight(*preflight, &job);
  if (auto accuracy = map.Get("accuracy")) {
    job.accuracy = ReadAccuracy(*accuracy);
  }
  if (auto deadline = map.Get("request_deadline"))
    job.request_deadline = deadline->Duration(std::chrono::seconds(1), std::chrono::hours(24));
  if (auto load = map.Get("load")) ReadLoad(*load, job.workloads, &job.load);
  map.Whole("seed", 0, INT64_MAX, &job.seed);
  map.Finish();

  ApplySets(set, &job, errors);
  CountGpus(&job, errors);
  if (job.baseline.empty()) {
    for (const StackSpec& stack : job.stacks) {
      if (stack.strategy == Strategy::kLocal && job.baseline.empty()) job.baseline = stack.name;
    }
  } else if (std::none_of(job.uses.begin(), job.uses.end(),
                          [&](const StackUse& use) { return use.as == job.baseline; })) {
    if (baseline && !job.uses.empty())
      baseline->Fail(absl::StrCat("'", job.baseline, "' is none of the job's stacks"));
  }
  CheckReference(*root, job);
  for (const StackSpec& stack : job.stacks) {
    for (const std::string& name : stack.required) {
      if (stack.params.at(name).empty()) {
        root->Fail(absl::StrCat("stack '", stack.name, "' needs a value for its parameter '", name, "'"),
                   absl::StrCat("write `set: {", name, ": …}` or use --set ", stack.name, ".", name, "=…"));
      }
    }
    if (stack.attach && !stack.reset_allowed && job.starting_state == "empty") {
      root->Fail(absl::StrCat("stack '", stack.name,
                              "' is attached without reset: allow, so its caches cannot start empty"),
                 "set starting_state: warm, or reset: allow in the stack");
    }
  }
  if (errors->size() > before) return ToStatus(*errors);
  return job;
}

Result<std::vector<std::string>> FilesOf(std::string_view job_yaml, const std::string& where) {
  Errors errors;
  auto root = Value::Parse(job_yaml, where, &errors);
  if (!root) return ToStatus(errors);
  if (!root->is_map()) return InvalidInput(where, "is no job file: a map is needed");
  std::vector<std::string> names;
  auto add = [&](const YAML::Node& node) {
    if (!node.IsDefined() || !node.IsScalar()) return;
    const std::string& name = node.Scalar();
    if (!name.empty() && !IsCatalogueName(name) && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  const YAML::Node& job = root->node();
  auto add_path = [&](const YAML::Node& node) {  // a file even when its name looks like the catalogue's
    if (!node.IsDefined() || !node.IsScalar() || node.Scalar().empty()) return;
    if (std::find(names.begin(), names.end(), node.Scalar()) == names.end()) names.push_back(node.Scalar());
  };
  add_path(job["pool"]);
  if (job["stacks"].IsDefined() && job["stacks"].IsSequence()) {
    for (const auto& stack : job["stacks"]) add(stack.IsMap() ? stack["use"] : YAML::Node(stack));
  }
  if (job["workloads"].IsDefined() && job["workloads"].IsMap()) {
    for (const auto& member : job["workloads"]) {
      if (member.second.IsMap()) add_path(member.second["file"]);
    }
  }
  if (job["accuracy"].IsDefined() && job["accuracy"].IsMap()) add_path(job["accuracy"]["dataset"]);
  return names;
}

}  // namespace poolmark::spec
