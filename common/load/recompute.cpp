#include "common/load/recompute.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/base/files.h"
#include "common/load/describe.h"
#include "common/load/record_codec.h"

namespace poolmark::load {
namespace {

// What records alone give. Percentiles of gaps are of buckets, the same in both.
constexpr const char* kFromRecords[] = {
    "window",
    "requests",
    "ok",
    "failed",
    "warm_up_requests",
    "primers",
    "outcomes",
    "requests_per_second",
    "output_tokens_per_second",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "ttft_ms",
    "ttft_from_sent_ms",
    "ttft_kernel_ms",
    "answer_ttft_ms",
    "first_byte_ms",
    "time_per_output_token_ms",
    "inter_token_latency_ms",
    "latency_ms",
    "connect_ms",
    "goodput",
};

// The program keeps some times as floats, and sums depend on the order in which requests ended.
bool Same(const Json& left, const Json& right) {
  if (!left.is_number() || !right.is_number()) return left == right;
  const double a = left.get<double>(), b = right.get<double>();
  return std::abs(a - b) <= 2e-4 + 1e-6 * std::max(std::abs(a), std::abs(b));
}

void Differ(const std::string& path, const Json& stored, const Json& computed,
            std::vector<Difference>* differences) {
  if (stored.is_object() && computed.is_object() && stored.size() == computed.size()) {
    for (const auto& [key, value] : computed.items()) {
      const auto other = stored.find(key);
      if (other == stored.end()) {
        differences->push_back({path + "." + key, "(nothing)", value.dump()});
      } else {
        Differ(path + "." + key, *other, value, differences);
      }
    }
    return;
  }
  if (stored.is_array() && computed.is_array() && stored.size() == computed.size()) {
    for (size_t i = 0; i < stored.size(); ++i)
      Differ(path + "[" + std::to_string(i) + "]", stored[i], computed[i], differences);
    return;
  }
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80);
  };
  if (!Same(stored, computed)) differences->push_back({path, text(stored), text(computed)});
}

bool IsFromRecords(const std::string& key) {
  return std::find(std::begin(kFromRecords), std::end(kFromRecords), key) != std::end(kFromRecords);
}

void DifferFromRecords(const Json& stored, const Summary& summary, std::vector<Difference>* differences) {
  const Json computed = SummaryJson(summary);
  for (const char* key : kFromRecords) {
    if (computed.contains(key) || stored.contains(key))
      Differ(key, stored.value(key, Json()), computed.value(key, Json()), differences);
  }
}

// The client's figures are stored rounded: what they may have been at the least, so that a bound which they
// only just passed by rounding is not held against a load.
ClientFigures LeastSlow(ClientFigures client) {
  constexpr double kRounding = 1e-4;
  for (auto* figure :
       {&client.lateness_p99_ms, &client.schedule_error_p99_ms, &client.processor_wait_share}) {
    if (figure->has_value()) **figure -= kRounding;
  }
  client.cpu_seconds_of_load -= kRounding;
  if (client.ran_out_at_s.has_value()) *client.ran_out_at_s += kRounding;
  return client;
}

// A warning without the figure behind it.
std::string_view SentenceOf(std::string_view warning) {
  return warning.substr(0, warning.rfind(" ("));
}

bool Has(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// What is stored may say more (a merge knows which worker was too slow), never less: without its mark a
// figure that is not to be trusted looks like any other.
void JudgeMarks(Summary stored, Summary* computed, std::vector<Difference>* differences) {
  for (const std::string& warning : computed->warnings) {
    const auto same = [&](const std::string& other) { return SentenceOf(other) == SentenceOf(warning); };
    if (std::none_of(stored.warnings.begin(), stored.warnings.end(), same))
      differences->push_back({"warnings", "without it", warning});
  }
  for (const std::string& warning : stored.warnings) {
    const auto same = [&](const std::string& other) { return SentenceOf(other) == SentenceOf(warning); };
    if (std::none_of(computed->warnings.begin(), computed->warnings.end(), same))
      computed->warnings.push_back(warning);
  }
  if (computed->client_limited && !stored.client_limited) {
    differences->push_back({"client.limited", "false", "true"});
    for (const std::string& note : computed->notes) {
      if (!Has(stored.notes, note)) stored.notes.push_back(note);
    }
  }
  computed->client_limited = computed->client_limited || stored.client_limited;
  computed->notes = std::move(stored.notes);
}

}  // namespace

Result<Recomputed> ReadLoad(const std::string& directory) {
  Recomputed load;
  const std::string path = JoinPath(directory, "load.json");
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(load.stored, ParseJson(text, path));
  POOLMARK_RETURN_IF_ERROR(CheckLoadVersion(load.stored, path));
  try {
    const Json& json = load.stored;
    const Json& bounds = json.at("window_ns");
    load.window.start = bounds.at("start").get<int64_t>();
    load.window.end = bounds.at("end").get<int64_t>();
    load.window.load_end = bounds.at("load_end").get<int64_t>();
    load.window.total_end = bounds.at("total_end").get<int64_t>();
    load.window.whole_run = json.at("window").at("whole_run").get<bool>();
    POOLMARK_ASSIGN_OR_RETURN(load.options, OptionsOfDescription(json.at("load")));
    AddClient(json.at("client"), &load.summary.client);
    load.summary.client_limited = json.at("client").at("limited").get<bool>();
    load.window.interrupted = json.at("interrupted").get<bool>();
    load.summary.warnings = json.at("warnings").get<std::vector<std::string>>();
    load.summary.notes = json.at("notes").get<std::vector<std::string>>();
    // Texts that a page shows.
    const Json& level = json.at("load").at("load");
    for (const auto& [parent, key] : {std::pair{&json, "started"}, {&level, "of"}, {&level, "arrivals"}})
      if (const auto it = parent->find(key); it != parent->end()) (void)it->get_ref<const std::string&>();
    if (const auto sources = json.find("prompt_token_sources"); sources != json.end()) {
      POOLMARK_ASSIGN_OR_RETURN(load.summary.prompt_token_sources, DumpJson(*sources));
    }
    if (const Json& slo = json.at("load").at("slo"); !slo.is_null()) {
      POOLMARK_ASSIGN_OR_RETURN(load.summary.slo, SloOfJson(slo));
    }
  } catch (const Json::exception& error) {
    return InvalidInput(path, std::string("it is no load.json of this version: ") + error.what());
  }
  return load;
}

Status RecordsComplete(const std::string& directory, const Recomputed& load) {
  const Json why = load.stored.value("files_error", Json());
  if (!why.is_string()) return absl::OkStatus();
  return InvalidInput(directory, "its records are not complete (" + why.get<std::string>() + ")",
                      "the figures of the load stand in its load.json");
}

void FinishLoad(Recomputed* load) {
  Summary stored = std::move(load->summary);
  Summary& summary = load->summary;
  summary = Summarize(load->records, load->window, load->options, LeastSlow(stored.client), stored.slo, {});
  summary.client = stored.client;
  summary.prompt_token_sources = stored.prompt_token_sources;
  DifferFromRecords(load->stored, summary, &load->differences);
  JudgeMarks(std::move(stored), &summary, &load->differences);
}

Status RecomputeLoad(const std::string& directory, const std::function<void(const RequestRecord&)>& each,
                     Recomputed* load) {
  POOLMARK_RETURN_IF_ERROR(RecordsComplete(directory, *load));
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(JoinPath(directory, "requests.jsonl.zst")));
  RequestRecord record;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) break;
    load->records.Add(record, load->window.start);
    each(record);
  }
  FinishLoad(load);
  return absl::OkStatus();
}

std::vector<Difference> DifferencesOf(const Json& summary, const Recomputed& load) {
  std::vector<Difference> differences;
  if (!summary.is_object()) return {{"", "no summary", "one"}};
  DifferFromRecords(summary, load.summary, &differences);
  for (const auto& [key, value] : summary.items()) {
    if (!IsFromRecords(key)) Differ(key, value, load.stored.value(key, Json()), &differences);
  }
  return differences;
}

}  // namespace poolmark::load
