#include "common/load/merge.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/zstd_file.h"
#include "common/load/record_codec.h"

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

Result<Json> ReadLoad(const std::string& directory) {
  const std::string path = JoinPath(directory, "load.json");
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, path));
  for (const char* key : {"started_wall_ns", "window_ns", "client"}) {
    if (!json.is_object() || !json.contains(key))
      return InvalidInput(path, std::string("it has no '") + key + "'",
                          "give directories that `poolmark load --out` wrote");
  }
  return json;
}

// The worst of the workers' own delays, the sum of their counts.
void AddClient(const Json& json, ClientFigures* client) {
  const auto worst = [](const Json& value, std::optional<double>* out) {
    if (value.is_number()) *out = std::max(out->value_or(0), value.get<double>());
  };
  worst(json["lateness_ms"]["p50"], &client->lateness_p50_ms);
  worst(json["lateness_ms"]["p99"], &client->lateness_p99_ms);
  worst(json["lateness_ms"]["max"], &client->lateness_max_ms);
  worst(json["schedule_error_ms"]["p50"], &client->schedule_error_p50_ms);
  worst(json["schedule_error_ms"]["p99"], &client->schedule_error_p99_ms);
  worst(json["schedule_error_ms"]["max"], &client->schedule_error_max_ms);
  client->achieved_concurrency += json["achieved_concurrency"].get<double>();
  client->max_in_flight += json["max_in_flight"].get<uint64_t>();
  client->cpu_seconds += json["cpu_s"].get<double>();
  client->max_rss_bytes = std::max(client->max_rss_bytes, json["max_rss_bytes"].get<uint64_t>());
  client->loops += json["loops"].get<int>() * json["processes"].get<int>();
  client->connections += json["connections"].get<uint64_t>();
  client->stale_connections += json["connections_closed_idle"].get<uint64_t>();
  client->extra_attempts += json["extra_attempts"].get<uint64_t>();
  client->unfilled_arrivals += json["unfilled_arrivals"].get<uint64_t>();
  client->unsent_arrivals += json["unsent_arrivals"].get<uint64_t>();
  client->abandoned_turns += json["abandoned_turns"].get<uint64_t>();
  client->waited_for_connection += json["waited_for_connection"].get<uint64_t>();
  client->users_without_session += json["users_without_session"].get<uint64_t>();
  client->events += json["events"].get<uint64_t>();
  client->bytes_in += json["bytes_in"].get<uint64_t>();
  const Json& ran_out = json["ran_out_of_sessions_at_s"];
  if (ran_out.is_number())
    client->ran_out_at_s = std::min(client->ran_out_at_s.value_or(1e18), ran_out.get<double>());
}

}  // namespace

Result<Summary> MergeLoads(const std::vector<std::string>& directories, const std::string& out,
                           const std::optional<Slo>& slo) {
  if (directories.empty())
    return InvalidInput("merge", "there is nothing to merge", "name the workers' directories");
  std::vector<Json> loads;
  int64_t first_start = INT64_MAX;
  for (const std::string& directory : directories) {
    POOLMARK_ASSIGN_OR_RETURN(Json json, ReadLoad(directory));
    first_start = std::min(first_start, json["started_wall_ns"].get<int64_t>());
    loads.push_back(std::move(json));
  }
  POOLMARK_RETURN_IF_ERROR(MakeDirs(out));
  POOLMARK_ASSIGN_OR_RETURN(const auto writer, ZstdWriter::Create(JoinPath(out, "requests.jsonl.zst")));
  Accumulator all;
  WindowBounds window;
  ClientFigures client;
  bool interrupted = false;
  LoadOptions options;  // only for the notes
  try {
    for (size_t i = 0; i < loads.size(); ++i) {
      const int64_t shift = loads[i]["started_wall_ns"].get<int64_t>() - first_start;
      const Json& bounds = loads[i]["window_ns"];
      window.start = std::max(window.start, bounds["start"].get<int64_t>() + shift);
      window.end = std::max(window.end, bounds["end"].get<int64_t>() + shift);
      window.load_end = std::max(window.load_end, bounds["load_end"].get<int64_t>() + shift);
      window.total_end = std::max(window.total_end, bounds["total_end"].get<int64_t>() + shift);
      window.whole_run = window.whole_run && loads[i]["window"]["whole_run"].get<bool>();
      interrupted = interrupted || loads[i]["interrupted"].get<bool>();
      AddClient(loads[i]["client"], &client);
      if (client.schedule_error_p99_ms.has_value()) options.mode = LoadOptions::Mode::kRate;
    }
  } catch (const Json::exception& error) {
    return InvalidInput("load.json",
                        std::string("a field has not the type that this version writes: ") + error.what());
  }
  if (window.whole_run) window.start = 0;
  if (!window.whole_run) options.duration = Nanoseconds(window.load_end);
  std::string line;
  RequestRecord record;
  for (size_t i = 0; i < directories.size(); ++i) {
    const int64_t shift = loads[i]["started_wall_ns"].get<int64_t>() - first_start;
    POOLMARK_ASSIGN_OR_RETURN(const auto reader,
                              RecordReader::Open(JoinPath(directories[i], "requests.jsonl.zst")));
    for (;;) {
      POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
      if (!more) break;
      Shift(shift, &record);
      all.Add(record, window.start);
      line.clear();
      AppendRecord(record, &line);
      POOLMARK_RETURN_IF_ERROR(writer->Write(line));
    }
  }
  POOLMARK_RETURN_IF_ERROR(writer->Finish());
  options.users = static_cast<uint32_t>(std::max(1.0, client.achieved_concurrency));
  Summary summary = Summarize(all, window, options, client, slo,
                              {"merged from " + std::to_string(directories.size()) + " load workers"});
  summary.interrupted = interrupted;
  Json json = SummaryJson(summary);
  json["started_wall_ns"] = first_start;
  json["window_ns"] = {{"start", window.start},
                       {"end", window.end},
                       {"load_end", window.load_end},
                       {"total_end", window.total_end}};
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(json, 2));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(out, "load.json"), text + "\n"));
  return summary;
}

}  // namespace poolmark::load
