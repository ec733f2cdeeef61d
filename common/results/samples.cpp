#include "common/results/samples.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/base/json.h"
#include "common/base/zstd_file.h"
#include "common/results/layout.h"

namespace poolmark::results {
namespace {

// Whole numbers that doubles hold exactly are written as differences.
bool Whole(double value) {
  return std::floor(value) == value && std::abs(value) < 9e15;
}

}  // namespace

struct SamplesWriter::State {
  std::unique_ptr<ZstdWriter> out;
  int64_t last_at = 0;
  std::map<uint32_t, double> last;
  std::map<std::string, uint32_t> sources;

  Status Line(const Json& json) {
    POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json));
    text.push_back('\n');
    return out->Write(text);
  }
  int64_t Step(Nanoseconds at) {
    const int64_t step = at.count() - last_at;
    last_at = at.count();
    return step;
  }
};

SamplesWriter::SamplesWriter() : state_(std::make_unique<State>()) {}
SamplesWriter::~SamplesWriter() = default;

Result<std::unique_ptr<SamplesWriter>> SamplesWriter::Create(const std::string& path,
                                                             const std::string& machine,
                                                             const std::string& wall_start) {
  std::unique_ptr<SamplesWriter> writer(new SamplesWriter);
  POOLMARK_ASSIGN_OR_RETURN(writer->state_->out, ZstdWriter::Create(path));
  POOLMARK_RETURN_IF_ERROR(writer->state_->Line(
      {{"schema_version", kSchemaVersion}, {"machine", machine}, {"wall_start", wall_start}}));
  return writer;
}

Status SamplesWriter::Series(const SampleSeries& series) {
  Json labels = Json::object();
  for (const auto& [key, value] : series.labels) labels[key] = value;
  return state_->Line({{"series", series.id},
                       {"source", series.source},
                       {"name", series.name},
                       {"labels", labels},
                       {"unit", series.unit},
                       {"kind", series.kind}});
}

Status SamplesWriter::Round(const SampleRoundRecord& round) {
  Json json = {{"dt", state_->Step(round.at)}, {"source", round.source}, {"took", round.duration.count()}};
  if (!round.failure.empty()) json["failure"] = round.failure;
  Json changes = Json::array();
  for (const SampleReading& reading : round.readings) {
    if (!reading.value.has_value()) {
      changes.push_back(Json::array({reading.series, reading.value.reason()}));
      state_->last.erase(reading.series);
      continue;
    }
    const double value = *reading.value;
    if (!std::isfinite(value)) {
      changes.push_back(Json::array({reading.series, "the series gave no finite number"}));
      state_->last.erase(reading.series);
      continue;
    }
    const auto before = state_->last.find(reading.series);
    if (before != state_->last.end() && Whole(value) && Whole(before->second)) {
      changes.push_back(Json::array({reading.series, static_cast<int64_t>(value - before->second)}));
    } else {
      changes.push_back(Json::array({reading.series, value, 1}));  // a third member: the value itself
    }
    state_->last[reading.series] = value;
  }
  json["v"] = std::move(changes);
  return state_->Line(json);
}

Status SamplesWriter::Gap(const SampleGap& gap) {
  return state_->Line({{"gap", gap.reason}, {"from", gap.from.count()}, {"to", gap.to.count()}});
}

Status SamplesWriter::Reset(const SampleResetRecord& reset) {
  return state_->Line(
      {{"reset", reset.reason}, {"at", reset.at.count()}, {"source", reset.source}, {"of", reset.series}});
}

Status SamplesWriter::Flush() {
  return state_->out->Flush();
}
Status SamplesWriter::Finish() {
  return state_->out->Finish();
}

namespace {

class LogReader {
 public:
  Status Header(const Json& json, const std::string& where) {
    const auto version = json.find("schema_version");
    if (version == json.end()) return InvalidInput(where, "has no schema_version");
    if (*version != kSchemaVersion) {
      return ToStatus(Error{
          absl::StatusCode::kFailedPrecondition, "schema_version", where,
          "schema_version is " + version->dump() + ", this program reads " + std::to_string(kSchemaVersion),
          "use the version of poolmark that wrote it"});
    }
    log_.machine = json.value("machine", "");
    log_.wall_start = json.value("wall_start", "");
    return absl::OkStatus();
  }

  // Throws nlohmann's exceptions on wrong types; the caller names the line.
  void Line(const Json& json) {
    if (json.contains("series")) {
      SampleSeries series;
      series.id = json.at("series").get<uint32_t>();
      series.source = json.at("source").get<std::string>();
      series.name = json.at("name").get<std::string>();
      for (const auto& [key, value] : json.at("labels").items())
        series.labels[key] = value.get<std::string>();
      series.unit = json.at("unit").get<std::string>();
      series.kind = json.at("kind").get<std::string>();
      log_.series.push_back(std::move(series));
    } else if (json.contains("gap")) {
      log_.gaps.push_back({Nanoseconds(json.at("from").get<int64_t>()),
                           Nanoseconds(json.at("to").get<int64_t>()), json.at("gap").get<std::string>()});
    } else if (json.contains("reset")) {
      log_.resets.push_back({Nanoseconds(json.at("at").get<int64_t>()), json.at("source").get<std::string>(),
                             json.at("of").get<uint32_t>(), json.at("reset").get<std::string>()});
    } else {
      Round(json);
    }
  }
  SampleLog log_;

 private:
  void Round(const Json& json) {
    if (__builtin_add_overflow(at_, json.at("dt").get<int64_t>(), &at_))
      throw std::out_of_range("dt is out of range");
    ++log_.rounds;
    if (json.contains("failure")) {
      ++log_.failed_rounds;
    } else {
      log_.scrapes[json.at("source").get<std::string>()].push_back(Nanoseconds(at_));
    }
    for (const Json& change : json.at("v")) {
      const auto id = change.at(0).get<uint32_t>();
      if (change.at(1).is_string()) {
        log_.not_measured[id] = change.at(1).get<std::string>();
        last_.erase(id);
        continue;
      }
      const double value = change.size() == 3
                               ? change.at(1).get<double>()
                               : last_.at(id) + static_cast<double>(change.at(1).get<int64_t>());
      last_[id] = value;
      log_.values[id].push_back({Nanoseconds(at_), value});
    }
  }

  int64_t at_ = 0;
  std::map<uint32_t, double> last_;
};

}  // namespace

Result<SampleLog> ReadSamples(const std::string& path) {
  POOLMARK_ASSIGN_OR_RETURN(const auto lines, LineReader::Open(path));
  LogReader reader;
  std::string text;
  bool header = false;
  for (;;) {
    const auto more = lines->Next(&text);
    if (!more.ok()) {
      if (!header) return more.status();
      reader.log_.truncated = std::string(more.status().message());
      break;
    }
    if (!*more) break;
    const std::string where = path + ":" + std::to_string(lines->line_number());
    auto json = ParseJson(text, where);
    if (!json.ok()) return json.status();
    if (!json->is_object()) return InvalidInput(where, "is no sample record");
    if (!header) {
      POOLMARK_RETURN_IF_ERROR(reader.Header(*json, where));
      header = true;
      continue;
    }
    try {
      reader.Line(*json);
    } catch (const std::exception& error) {
      return InvalidInput(where, std::string("is no sample record: ") + error.what());
    }
  }
  if (!header) return InvalidInput(path, "is empty");
  return std::move(reader.log_);
}

}  // namespace poolmark::results
