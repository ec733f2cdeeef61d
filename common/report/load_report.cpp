#include "common/report/load_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/workload/stored_settings.h"

namespace poolmark::report {
namespace {

// The smallest round length of which at most this many cover the load.
constexpr double kMostBins = 120;
double BinLength(double seconds) {
  double length = 0.01;
  for (const double step : {2.0, 2.5, 2.0}) {
    if (length * kMostBins >= seconds) return length;
    length *= step;
  }
  while (length * kMostBins < seconds) {
    for (const double step : {2.0, 2.5, 2.0}) {  // 0.1, 0.2, 0.5, 1, …
      if (length * kMostBins < seconds) length *= step;
    }
  }
  return length;
}

}  // namespace

Result<LoadReport> ReadLoadReport(const std::string& directory) {
  LoadReport out;
  out.directory = directory;
  POOLMARK_ASSIGN_OR_RETURN(out.load, load::ReadLoad(directory));
  const double total = static_cast<double>(out.load.window.total_end) / 1e9;
  constexpr double kLongest = 366.0 * 86400;
  if (!(total >= 0) || total > kLongest)
    return InvalidInput(directory, "its load.json says that the load took " + std::to_string(total) + " s");
  out.bin_seconds = BinLength(total);
  out.bins.resize(static_cast<size_t>(total / out.bin_seconds) + 1);
  const auto bin = [&](int64_t at) -> LoadBin& {
    const double place = std::max(0.0, static_cast<double>(at) / 1e9 / out.bin_seconds);
    return out.bins[std::min(out.bins.size() - 1, static_cast<size_t>(place))];
  };
  POOLMARK_RETURN_IF_ERROR(load::RecomputeLoad(
      directory,
      [&](const load::RequestRecord& record) {
        ++bin(record.started).started;
        ++bin(record.end).ended[static_cast<size_t>(record.outcome)];
        for (const load::OutputEvent& event : record.events) bin(event.at).output_tokens += event.tokens;
      },
      &out.load));
  return out;
}

std::vector<std::string> ReplayNotesOf(const LoadReport& report) {
  const Json load = report.load.stored.value("load", Json::object());
  const auto workload = load.find("workload");
  if (workload == load.end() || !workload->is_object()) return {};
  const auto spec = workload::ParseStored(*workload);
  return spec.ok() ? workload::ReplayNotes(*spec) : std::vector<std::string>();
}

std::string LoadReportText(const LoadReport& report) {
  std::string out = load::SummaryText(report.load.summary);
  for (const std::string& note : ReplayNotesOf(report)) out += "note: " + note + "\n";
  for (const load::Difference& one : report.load.differences)
    out +=
        "differs: load.json: " + one.path + " is " + one.stored + ", computed again " + one.computed + "\n";
  if (report.load.differences.empty()) out += "\nEvery stored figure follows from the records.\n";
  return out;
}

Result<std::string> LoadReportJson(const LoadReport& report) {
  Json differences = Json::array();
  for (const load::Difference& one : report.load.differences)
    differences.push_back(
        {{"file", kLoadFile}, {"path", one.path}, {"stored", one.stored}, {"computed", one.computed}});
  Json json = {{"load", report.load.stored}, {"differences", differences}, {"problems", Json::array()}};
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json, 1));
  return text + "\n";
}

}  // namespace poolmark::report
