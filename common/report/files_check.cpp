#include "common/report/files_check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/report/gap_chart.h"
#include "common/results/inputs_file.h"
#include "common/results/layout.h"

namespace poolmark::report {
namespace {

using Problems = std::vector<results::Problem>;

constexpr char kNotAgain[] = "not computed again: ";

// A timeline of several load machines counts whole seconds; an interrupted load ends between two of them.
constexpr double kSlackSeconds = 0.05, kWholeSlackSeconds = 1.5;

// The lines of a JSON Lines file of the directory. Nothing: it is missing or damaged, and a problem says so.
std::optional<std::vector<Json>> Lines(const std::string& directory, const std::string& name,
                                       Problems* problems) {
  const std::string path = JoinPath(directory, name);
  if (!FileExists(path)) {
    problems->push_back({name, "is missing"});
    return std::nullopt;
  }
  const auto text = ReadFile(path);
  if (!text.ok()) {
    problems->push_back({name, std::string(text.status().message())});
    return std::nullopt;
  }
  std::vector<Json> out;
  for (size_t at = 0; at < text->size();) {
    const size_t end = text->find('\n', at);
    const std::string line = "line " + std::to_string(out.size() + 1);
    if (end == std::string::npos) {
      problems->push_back({name, line + " is cut: it has no end"});
      return std::nullopt;
    }
    auto json = ParseJson(std::string_view(*text).substr(at, end - at), line);
    if (!json.ok() || !json->is_object()) {
      problems->push_back({name, line + " is no JSON object"});
      return std::nullopt;
    }
    out.push_back(std::move(*json));
    at = end + 1;
  }
  if (out.empty()) {
    problems->push_back({name, "is empty"});
    return std::nullopt;
  }
  return out;
}

void CheckEvents(const results::Directory& directory, Problems* problems) {
  const std::string name(results::kEventsFile);
  const auto events = Lines(directory.path, name, problems);
  if (!events) return;
  for (size_t i = 0; i < events->size(); ++i) {
    const Json sequence = (*events)[i].value("sequence", Json());
    if (sequence == i + 1) continue;
    problems->push_back({name, "line " + std::to_string(i + 1) + ": sequence is " +
                                   sequence.dump(-1, ' ', false, Json::error_handler_t::replace) +
                                   ", expected " + std::to_string(i + 1)});
    return;
  }
  const Json state = events->back().value("state", Json());
  if (state != directory.job.state)
    problems->push_back({name, "ends with the state " +
                                   state.dump(-1, ' ', false, Json::error_handler_t::replace) +
                                   ", the job ended " + directory.job.state});
}

void CheckInputs(const results::Directory& directory, Problems* problems) {
  const std::string name(results::kInputsFile);
  if (!FileExists(JoinPath(directory.path, name))) {
    problems->push_back({name, "is missing: nothing says what the job was submitted with"});
    return;
  }
  if (!directory.inputs) return;  // told when it was read
  const auto& inputs = directory.inputs->inputs;
  if (std::none_of(inputs.begin(), inputs.end(),
                   [&](const auto& input) { return input.path == directory.inputs->job_path; }))
    problems->push_back({name, "does not list the job file '" + directory.inputs->job_path + "'"});
  for (const auto& input : inputs) {
    if (input.stored.empty()) continue;  // too big to keep
    const auto sum = Sha256OfFile(JoinPath(directory.path, input.stored));
    if (!FileExists(JoinPath(directory.path, input.stored))) {
      problems->push_back({input.stored, "is missing: the input '" + input.path + "'"});
    } else if (!sum.ok()) {
      problems->push_back({input.stored, std::string(sum.status().message())});
    } else if (*sum != input.sha256) {
      problems->push_back({input.stored, "is not the input that was submitted: its SHA-256 differs"});
    }
  }
  for (const auto& workload : directory.job.workloads) {
    if (!workload.input.empty() && std::none_of(inputs.begin(), inputs.end(), [&](const auto& input) {
          return input.stored == workload.input;
        }))
      problems->push_back(
          {name, "does not list the input '" + workload.input + "' of workload " + workload.name});
  }
}

void CheckCycles(const results::Directory& directory, Problems* problems) {
  std::set<int> cycles;
  for (const auto& repeat : directory.repeats) cycles.insert(repeat.facts.cycle);
  for (const int cycle : cycles) {
    for (const std::string& name : {results::VerifyFile(cycle), results::TeardownFile(cycle)}) {
      const bool told = std::any_of(problems->begin(), problems->end(),
                                    [&](const auto& problem) { return problem.path == name; });
      if (!told && !FileExists(JoinPath(directory.path, name)))
        problems->push_back({name, "is missing: repeats of this cycle are there"});
    }
  }
}

void CheckTimeline(const results::Directory& directory, const std::string& repeat,
                   const load::Recomputed& load, Problems* problems) {
  const std::string name = JoinPath(repeat, "timeline.jsonl");
  const auto ticks = Lines(directory.path, name, problems);
  if (!ticks) return;
  const Json last = ticks->back().value("t", Json());
  if (!last.is_number()) {
    problems->push_back({name, "line " + std::to_string(ticks->size()) + ": t is no number"});
    return;
  }
  const double ends = static_cast<double>(load.window.total_end) / 1e9;
  const bool whole = last.is_number_integer() || load.summary.interrupted;
  if (last.get<double>() + (whole ? kWholeSlackSeconds : kSlackSeconds) < ends)
    problems->push_back(
        {name, "ends at second " + last.dump() + ", the load lasted " + Json(ends).dump() + " s: it is cut"});
}

// The window is the load's own: one that was chosen afterwards would make other figures of the same records.
void CheckWindow(const results::RepeatFacts& facts, const load::Recomputed& load, const std::string& file,
                 std::vector<Difference>* differences) {
  const auto same = [&](const char* field, double stored, int64_t nanoseconds) {
    const double computed = static_cast<double>(nanoseconds) / 1e9;
    if (std::abs(stored - computed) > 1e-6)
      differences->push_back({file, field, Json(stored).dump(), Json(computed).dump()});
  };
  same("facts.measured_from", facts.measured_from, load.window.start);
  same("facts.warm_up_seconds", facts.warm_up_seconds, load.window.start);
  same("facts.measured_to", facts.measured_to, load.window.end);
  same("facts.load_seconds", facts.load_seconds, load.window.load_end);
  same("facts.drain_end", facts.drain_end, load.window.total_end);
  const auto says = [](bool value) { return value ? "true" : "false"; };
  const auto flag = [&](const char* field, bool stored, bool computed) {
    if (stored != computed) differences->push_back({file, field, says(stored), says(computed)});
  };
  flag("facts.client_limited", facts.client_limited, load.summary.client_limited);
  flag("facts.ran_out_of_sessions", facts.ran_out_of_sessions,
       facts.held_load && load.summary.client.ran_out_at_s.has_value());
}

}  // namespace

void CheckJobFiles(const results::Directory& directory, Problems* problems) {
  CheckInputs(directory, problems);
  CheckEvents(directory, problems);
  CheckCycles(directory, problems);
}

LoadCheck::LoadCheck(const results::Directory& directory, const results::RepeatFile& repeat, bool check,
                     Problems* problems, std::vector<Difference>* differences)
    : file_(JoinPath(results::DirectoryOf(repeat), "load.json")),
      check_(check),
      problems_(problems),
      differences_(differences) {
  Open(directory, repeat);
}

void LoadCheck::Open(const results::Directory& directory, const results::RepeatFile& repeat) {
  const std::string name = results::DirectoryOf(repeat);
  const std::string path = JoinPath(directory.path, name);
  if (!FileExists(JoinPath(directory.path, file_))) {
    NotAgain("it is missing");
    if (check_ && !FileExists(JoinPath(path, "timeline.jsonl")))
      problems_->push_back({JoinPath(name, "timeline.jsonl"), "is missing"});
    return;
  }
  auto load = load::ReadLoad(path);
  if (!load.ok()) return NotAgain(std::string(load.status().message()));
  if (check_) {
    CheckTimeline(directory, name, *load, problems_);
    CheckWindow(repeat.facts, *load, JoinPath(name, std::string(results::kRepeatFile)), differences_);
  }
  const Status complete = load::RecordsComplete(path, *load);
  if (!complete.ok()) return NotAgain(std::string(complete.message()));
  load_ = std::move(*load);
}

void LoadCheck::NotAgain(const std::string& why) {
  if (check_) problems_->push_back({file_, kNotAgain + why});
  load_.reset();
}

GapPoints LoadCheck::Finish(const Status& read) {
  if (load_ && !read.ok()) NotAgain(std::string(read.message()));
  if (!load_) return {};
  load::FinishLoad(&*load_);
  if (check_) {
    for (size_t i = 0; i < std::min(load_->differences.size(), kMaxDifferences); ++i) {
      const auto& one = load_->differences[i];
      differences_->push_back({file_, one.path, one.stored, one.computed});
    }
  }
  return GapCurve(load_->records);
}

}  // namespace poolmark::report
