#include "common/results/samples.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>

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
  Json json = {{"series", series.id}, {"source", series.source}, {"name", series.name},
               {"labels", labels},    {"unit", series.unit},     {"kind", series.kind}};
  if (series.adding) json["split"] = series.adding->split;
  if (series.adding && series.adding->max) json["max"] = true;
  return state_->Line(json);
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

// A value of a record; throws with its name where it is missing (null pointer) or of another type.
template <class T>
T Field(const Json* value, const std::string& name) {
  if (value == nullptr) throw std::invalid_argument(name + " is missing");
  // The library would round and wrap.
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (!value->is_number_integer()) throw std::invalid_argument(name + " is no whole number");
    if (std::is_unsigned_v<T> &&
        (!value->is_number_unsigned() || value->get<uint64_t>() > std::numeric_limits<uint32_t>::max()))
      throw std::invalid_argument(name + " is out of range");
  }
  try {
    return value->get<T>();
  } catch (const Json::exception&) {
    throw std::invalid_argument(name + " has another type");
  }
}

const Json* Find(const Json& json, const std::string& key) {
  const auto at = json.find(key);
  return at == json.end() ? nullptr : &*at;
}
const Json* Find(const Json& json, size_t at) {
  return json.is_array() && at < json.size() ? &json[at] : nullptr;
}

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
    log_.machine = Text(json, "machine");
    log_.wall_start = Text(json, "wall_start");
    return absl::OkStatus();
  }

  // Throws what is wrong with which field; the caller names the line.
  void Line(const Json& json) {
    if (json.contains("series")) {
      SampleSeries series;
      series.id = Number<uint32_t>(json, "series");
      series.source = Text(json, "source");
      series.name = Text(json, "name");
      if (!json.contains("labels") || !json["labels"].is_object())
        throw std::invalid_argument("'labels' is no object");
      for (const auto& [key, value] : json["labels"].items()) series.labels[key] = Text(json["labels"], key);
      series.unit = Text(json, "unit");
      series.kind = Text(json, "kind");
      if (const Json* split = Find(json, "split")) {
        series.adding.emplace();
        series.adding->split = Field<std::vector<std::string>>(split, "'split'");
        if (const Json* max = Find(json, "max")) series.adding->max = Field<bool>(max, "'max'");
      }
      log_.series.push_back(std::move(series));
    } else if (json.contains("gap")) {
      log_.gaps.push_back({Nanoseconds(Number<int64_t>(json, "from")),
                           Nanoseconds(Number<int64_t>(json, "to")), Text(json, "gap")});
    } else if (json.contains("reset")) {
      log_.resets.push_back({Nanoseconds(Number<int64_t>(json, "at")), Text(json, "source"),
                             Number<uint32_t>(json, "of"), Text(json, "reset")});
    } else {
      Round(json);
    }
  }
  SampleLog log_;

 private:
  static std::string Text(const Json& json, const std::string& key) {
    return Field<std::string>(Find(json, key), "'" + key + "'");
  }
  template <class T>
  static T Number(const Json& json, const std::string& key) {
    return Field<T>(Find(json, key), "'" + key + "'");
  }

  void Round(const Json& json) {
    if (__builtin_add_overflow(at_, Number<int64_t>(json, "dt"), &at_))
      throw std::invalid_argument("'dt' is out of range");
    ++log_.rounds;
    if (json.contains("failure")) {
      ++log_.failed_rounds;
      log_.failures[Text(json, "source")].push_back(Nanoseconds(at_));
    } else {
      log_.scrapes[Text(json, "source")].push_back(Nanoseconds(at_));
    }
    if (!json.contains("v") || !json["v"].is_array()) throw std::invalid_argument("'v' is no list");
    size_t number = 0;
    for (const Json& change : json["v"]) {
      const std::string name = "'v[" + std::to_string(number++) + "]";
      const auto id = Field<uint32_t>(Find(change, 0), name + "[0]'");
      if (change.size() > 1 && change[1].is_string()) {
        log_.not_measured[id] = change[1].get<std::string>();
        log_.unread[id].push_back(Nanoseconds(at_));
        last_.erase(id);
        continue;
      }
      double value = 0;
      if (change.size() == 3) {
        value = Field<double>(Find(change, 1), name + "[1]'");
      } else {
        const auto difference = Field<int64_t>(Find(change, 1), name + "[1]'");
        const auto before = last_.find(id);
        if (before == last_.end())
          throw std::invalid_argument(name + "' is a difference, but no value of series " +
                                      std::to_string(id) + " stands before it");
        value = before->second + static_cast<double>(difference);
      }
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
    try {
      if (header) {
        reader.Line(*json);
        continue;
      }
      POOLMARK_RETURN_IF_ERROR(reader.Header(*json, where));
      header = true;
    } catch (const std::exception& error) {
      return InvalidInput(where, std::string("is no sample record: ") + error.what());
    }
  }
  if (!header) return InvalidInput(path, "is empty");
  return std::move(reader.log_);
}

}  // namespace poolmark::results
