#include "common/prom/evidence.h"

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"

namespace poolmark::prom {
namespace {

// The record of one line, or why it is none.
Result<EvidenceRecord> ReadRecord(const std::string& line, const std::string& where) {
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(line, where, {1u << 20, 8, true}));
  if (!json.is_object()) return InvalidInput(where, "no JSON object");
  EvidenceRecord record;
  for (const auto& [key, into] :
       {std::pair("dialect", &record.dialect), std::pair("version", &record.evidence.version),
        std::pair("date", &record.evidence.date), std::pair("evidence", &record.evidence.evidence)}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string())
      return InvalidInput(where, absl::StrCat("'", key, "' is missing or no text"));
    *into = found->get<std::string>();
  }
  const auto series = json.find("series");
  if (series == json.end() || !series->is_array())
    return InvalidInput(where, "'series' is missing or no list");
  for (const Json& name : *series) {
    if (!name.is_string()) return InvalidInput(where, "'series' holds something else than texts");
    record.series.push_back(name.get<std::string>());
  }
  return record;
}

}  // namespace

Status AppendEvidence(const std::string& path, const EvidenceRecord& record) {
  Json json = {{"dialect", record.dialect},
               {"version", record.evidence.version},
               {"date", record.evidence.date},
               {"evidence", record.evidence.evidence},
               {"series", record.series}};
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(json));
  return AppendFile(path, text + "\n", true);
}

Status ApplyEvidence(const std::string& path, Catalogue* catalogue, std::vector<std::string>* skipped) {
  if (!FileExists(path)) return absl::OkStatus();
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 64u << 20));
  size_t start = 0;
  for (int number = 1; start < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.empty()) continue;
    const std::string where = absl::StrCat(path, ":", number);
    const auto record = ReadRecord(line, where);
    Status status = record.status();
    if (record.ok()) status = catalogue->Confirm(record->dialect, record->evidence, record->series).status();
    if (!status.ok() && skipped != nullptr)
      skipped->push_back(absl::StrCat(where, ": ", ErrorOf(status).message));
  }
  return absl::OkStatus();
}

const Dialect* GuessDialect(const Catalogue& catalogue, const std::vector<Sample>& samples) {
  std::set<std::string> names;
  for (const Sample& sample : samples) names.insert(sample.name);
  const Dialect* best = nullptr;
  size_t most = 0;
  for (const auto& [name, dialect] : catalogue.dialects()) {
    if (dialect.simulated || dialect.name == "host") continue;  // they share names with others
    size_t known = 0;
    for (const std::string& series : names) known += dialect.Keeps(series);
    if (known > most) {
      most = known;
      best = &dialect;
    }
  }
  return best;
}

}  // namespace poolmark::prom
