#include "common/load/merge.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/base/zstd_file.h"
#include "common/load/describe.h"
#include "common/load/merge_timeline.h"
#include "common/load/record_codec.h"
#include "common/load/run_files.h"

namespace poolmark::load {
namespace {

void Shift(int64_t by, RequestRecord* record) {
  const auto move = [by](std::optional<int64_t>* time) {
    if (time->has_value()) **time += by;
  };
  record->started += by;
  record->sent += by;
  record->end += by;
  for (std::optional<int64_t>* time :
       {&record->intended, &record->first_byte, &record->first_output, &record->first_answer_output,
        &record->last_output, &record->kernel_first_output, &record->kernel_last_output}) {
    move(time);
  }
  for (OutputEvent& event : record->events) event.at += by;
}

struct Worker {
  std::string directory;
  Json json;  // its load.json
  Json load;  // what it says of the load
  uint32_t number = 0;
  int64_t shift = 0;  // from its start to the first one's, on the common clock
  bool limited = false;
  std::vector<std::string> notes;
};

Result<Worker> ReadWorker(const std::string& directory) {
  Worker worker;
  worker.directory = directory;
  const std::string path = JoinPath(directory, "load.json");
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(worker.json, ParseJson(text, path));
  POOLMARK_RETURN_IF_ERROR(CheckLoadVersion(worker.json, path));
  for (const char* key : {"started_wall_ns", "window_ns", "client", "load", "notes"}) {
    if (!worker.json.contains(key))
      return InvalidInput(path, std::string("it has no '") + key + "'",
                          "give directories that `poolmark load --plan` of this version wrote");
  }
  worker.load = worker.json["load"];
  if (!worker.load.is_object() || !worker.load.contains("worker") ||
      !worker.load["worker"].is_number_unsigned())
    return InvalidInput(path, "it is no load of one worker",
                        "merge the workers' own directories, all at once");
  worker.number = worker.load["worker"].get<uint32_t>();
  if (const Json why = worker.json.value("files_error", Json()); why.is_string())
    return InvalidInput(directory, "its records are not complete (" + why.get<std::string>() + ")",
                        "what it measured stands in its load.json; run the load again where there is room");
  return worker;
}

// Everything that two workers of one load have in common.
Status CheckParts(const std::vector<Worker>& workers, const std::vector<WorkerResult>& given) {
  const Worker& first = workers.front();
  const Json& digest = first.load.at("plan_sha256");
  const auto count = first.load.at("workers").get<uint32_t>();
  if (!digest.is_string() || count < 2) {
    return InvalidInput(first.directory, "it is a load of its own, no part of one",
                        "workers of one plan have `worker` and `workers` in their plan files");
  }
  std::vector<const Worker*> seen(count, nullptr);
  for (size_t i = 0; i < workers.size(); ++i) {
    const Worker& worker = workers[i];
    if (worker.load.at("plan_sha256") != digest || worker.load.at("workers").get<uint32_t>() != count) {
      return InvalidInput(worker.directory,
                          "it is a part of another load than " + first.directory + ": their plans differ",
                          "merge the workers of one plan");
    }
    if (worker.number >= count)
      return InvalidInput(worker.directory,
                          "it is worker " + std::to_string(worker.number) + " of " + std::to_string(count));
    if (seen[worker.number] != nullptr) {
      return InvalidInput(
          worker.directory,
          "worker " + std::to_string(worker.number) + " is also in " + seen[worker.number]->directory,
          "give each worker's directory once");
    }
    seen[worker.number] = &worker;
    const Json& start = worker.load.at("start_at_wall_ns");
    const Json& other = first.load.at("start_at_wall_ns");
    if (!start.is_number() || !other.is_number() ||
        start.get<int64_t>() - given[i].clock_offset.count() !=
            other.get<int64_t>() - given[0].clock_offset.count()) {
      return InvalidInput(worker.directory,
                          "it did not begin together with " + first.directory +
                              ": their plans have no common start_at_wall_ns",
                          "start all workers of a load at one time");
    }
  }
  for (uint32_t number = 0; number < count; ++number) {
    if (seen[number] == nullptr)
      return InvalidInput("merge",
                          "worker " + std::to_string(number) + " of " + std::to_string(count) + " is missing",
                          "a part of a load is no load: give all its workers' directories");
  }
  return absl::OkStatus();
}

// A note without its figures: two of one shape say the same of different amounts.
std::string Shape(const std::string& note) {
  std::string shape;
  for (const char c : note) {
    const bool figure = (c >= '0' && c <= '9') || c == '.' || c == ',';
    if (!figure || shape.empty() || shape.back() != '#') shape += figure ? '#' : c;
  }
  return shape;
}

// What a worker says of itself that the sum of all does not say: nothing is dropped.
void AddWorkersNotes(const std::vector<Worker>& workers, Summary* summary) {
  std::vector<std::string> said;
  for (const std::string& note : summary->notes) said.push_back(Shape(note));
  for (const Worker& worker : workers) {
    for (const std::string& note : worker.notes) {
      if (std::find(said.begin(), said.end(), Shape(note)) == said.end())
        summary->notes.push_back("worker " + std::to_string(worker.number) + ": " + note);
    }
  }
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(path, error);
  return error ? path : canonical.string();
}

// The load of all: what the workers have in common, and what each has of its own.
Json MergedDescription(const std::vector<Worker>& workers) {
  Json load = workers.front().load;
  Json parts = Json::array();
  for (const Worker& worker : workers) {
    Json part;
    for (const char* key : {"worker", "machine", "program", "loops", "processes", "start_at_wall_ns"})
      part[key] = worker.load.contains(key) ? worker.load[key] : Json(nullptr);
    part["started_wall_ns"] = worker.json["started_wall_ns"];
    parts.push_back(std::move(part));
  }
  for (const char* key : {"worker", "machine", "loops", "processes"}) load.erase(key);
  load["parts"] = parts;
  return load;
}

}  // namespace

Result<Summary> MergeLoads(const std::vector<WorkerResult>& given, const std::string& out,
                           const std::optional<Slo>& slo) {
  if (given.empty())
    return InvalidInput("merge", "there is nothing to merge", "name the workers' directories");
  std::vector<Worker> workers;
  for (const WorkerResult& one : given) {
    if (Canonical(one.directory) == Canonical(out))
      return InvalidInput(out, "the merged results would overwrite those of a worker",
                          "give --out a directory of its own");
    POOLMARK_ASSIGN_OR_RETURN(workers.emplace_back(), ReadWorker(one.directory));
  }
  WindowBounds window;
  ClientFigures client;
  LoadOptions options;
  std::optional<Slo> objective = slo;
  int64_t first_start = INT64_MAX;
  std::vector<std::string> notes = {"merged from " + std::to_string(workers.size()) + " load workers"};
  try {
    POOLMARK_RETURN_IF_ERROR(CheckParts(workers, given));
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i].shift = workers[i].json["started_wall_ns"].get<int64_t>() - given[i].clock_offset.count();
      first_start = std::min(first_start, workers[i].shift);
    }
    for (Worker& worker : workers) {
      worker.shift -= first_start;
      const Json& bounds = worker.json["window_ns"];
      window.start = std::max(window.start, bounds["start"].get<int64_t>() + worker.shift);
      window.end = std::max(window.end, bounds["end"].get<int64_t>() + worker.shift);
      window.load_end = std::max(window.load_end, bounds["load_end"].get<int64_t>() + worker.shift);
      window.total_end = std::max(window.total_end, bounds["total_end"].get<int64_t>() + worker.shift);
      window.whole_run = window.whole_run && worker.json["window"]["whole_run"].get<bool>();
      window.interrupted = window.interrupted || worker.json["interrupted"].get<bool>();
      AddClient(worker.json["client"], &client);
      worker.limited = worker.json["client"].at("limited").get<bool>();
      worker.notes = worker.json["notes"].get<std::vector<std::string>>();
      for (const Json& note : worker.load.at("source_notes")) {
        const auto text = note.get<std::string>();
        if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(text);
      }
    }
    POOLMARK_ASSIGN_OR_RETURN(options, OptionsOfDescription(workers.front().load));
    options.worker = 0;  // the whole is nobody's part
    options.workers = 1;
    if (const Json& own = workers.front().load.at("slo"); !objective.has_value() && !own.is_null()) {
      POOLMARK_ASSIGN_OR_RETURN(objective, SloOfJson(own));
    }
  } catch (const Json::exception& error) {
    return InvalidInput("load.json",
                        std::string("a field has not the type that this version writes: ") + error.what());
  }
  if (window.whole_run) window.start = 0;
  RunFiles files(out, 1);
  POOLMARK_RETURN_IF_ERROR(files.Prepare());
  POOLMARK_ASSIGN_OR_RETURN(const auto writer, ZstdWriter::Create(JoinPath(out, "requests.jsonl.zst")));
  Accumulator all;
  all.in_flight.emplace();
  TimelineMerge timeline;
  std::string line;
  RequestRecord record;
  for (const Worker& worker : workers) {
    POOLMARK_RETURN_IF_ERROR(
        timeline.Read(JoinPath(worker.directory, "timeline.jsonl"), static_cast<double>(worker.shift) / 1e9));
    const std::string path = JoinPath(worker.directory, "requests.jsonl.zst");
    POOLMARK_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path));
    for (;;) {
      POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
      if (!more) break;
      if (record.session % workers.size() != worker.number) {
        return InvalidInput(path,
                            "session " + std::to_string(record.session) + " is worker " +
                                std::to_string(record.session % workers.size()) + "'s, not worker " +
                                std::to_string(worker.number) + "'s",
                            "give the directories as the workers wrote them");
      }
      Shift(worker.shift, &record);
      all.Add(record, window.start);
      timeline.Add(record);
      line.clear();
      AppendRecord(record, &line);
      POOLMARK_RETURN_IF_ERROR(writer->Write(line));
    }
  }
  POOLMARK_RETURN_IF_ERROR(writer->Finish());
  POOLMARK_ASSIGN_OR_RETURN(const std::string seconds, timeline.Text());
  if (!seconds.empty()) POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(out, "timeline.jsonl"), seconds));
  client.max_in_flight = std::max(client.max_in_flight, all.in_flight->Most());
  Summary summary = Summarize(all, window, options, client, objective, notes);
  if (window.interrupted)
    summary.notes.push_back("the load was interrupted; all that was sent is in the records");
  // A machine that was too slow spoils its share of the figures, whatever the sum of all looks like.
  for (const Worker& worker : workers) {
    if (!worker.limited) continue;
    summary.client_limited = true;
    summary.notes.push_back("worker " + std::to_string(worker.number) + " was too slow for its part (" +
                            worker.directory + "): its latencies include its own delay");
  }
  AddWorkersNotes(workers, &summary);
  POOLMARK_ASSIGN_OR_RETURN(summary.load_json, DumpJson(MergedDescription(workers)));
  Json json = SummaryJson(summary);
  json["started"] = IsoLocal(Nanoseconds(first_start));
  json["started_wall_ns"] = first_start;
  json["window_ns"] = {{"start", window.start},
                       {"end", window.end},
                       {"load_end", window.load_end},
                       {"total_end", window.total_end}};
  json["urls"] = workers.front().load["urls"];
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(json, 2));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(out, "load.json"), text + "\n"));
  return summary;
}

}  // namespace poolmark::load
