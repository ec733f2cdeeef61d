// Reads a sweep: knee.json says which levels were measured, their directories what they gave.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "common/load/knee.h"
#include "common/report/format.h"
#include "common/report/knee_page.h"

namespace poolmark::report {
namespace {

std::optional<double> InSeconds(const std::optional<load::Distribution>& of,
                                double load::Distribution::*which) {
  return of.has_value() ? std::optional((*of).*which * 1e-3) : std::nullopt;
}

// The level's figures; `asked` is the share of requests that must be good.
KneeLevel LevelOf(const load::Recomputed& load, double asked) {
  const load::Summary& s = load.summary;
  KneeLevel level;
  level.known = true;
  level.level = load.options.mode == load::LoadOptions::Mode::kRate ? load.options.arrivals.steps.at(0).from
                                                                    : load.options.users;
  level.client_limited = s.client_limited;
  if (!s.goodput.empty()) {
    level.share = s.goodput[0].share;
    level.goodput = s.goodput[0].per_second;
  }
  level.passed = !level.client_limited && level.share.value_or(0) >= asked;
  level.tokens_per_second = s.output_tokens_per_second;
  level.ttft_p50 = InSeconds(s.ttft, &load::Distribution::p50);
  level.ttft_p99 = InSeconds(s.ttft, &load::Distribution::p99);
  level.tpot_p99 = InSeconds(s.time_per_output_token, &load::Distribution::p99);
  return level;
}

// A directory of the sweep's own: what the file says is not to lead elsewhere.
Result<std::string> DirectoryOf(const Json& level, std::set<std::string>* taken) {
  const Json name = level.value("directory", Json());
  if (!name.is_string()) return InvalidInput("", "no directory is named for its records");
  const auto text = name.get<std::string>();
  if (text.empty() || text == "." || text == ".." || text.find('/') != std::string::npos)
    return InvalidInput("", "'" + text + "' is no directory of the sweep");
  if (!taken->insert(text).second)
    return InvalidInput("", "'" + text + "' holds the records of another level");
  return text;
}

class Reader {
 public:
  Reader(std::string directory, KneeReport* out) : directory_(std::move(directory)), out_(*out) {}

  void Level(const Json& stored, size_t index) {
    KneeLevel level;
    level.level = stored.at("level").get<double>();
    if (const Status read = Compute(stored, "levels[" + std::to_string(index) + "].", &level); !read.ok())
      out_.problems.push_back("level " + FormatValue(level.level, "") + ": " + std::string(read.message()));
    out_.levels.push_back(level);
  }

  void Differs(const std::string& path, const Json& stored, const Json& computed) {
    if (stored == computed) return;
    if (stored.is_number() && computed.is_number() &&
        std::abs(stored.get<double>() - computed.get<double>()) <= 1e-6 * std::abs(computed.get<double>()))
      return;
    out_.differences.push_back({kKneeFile, {path, Short(stored), Short(computed)}});
  }

 private:
  static std::string Short(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80);
  }

  Status Compute(const Json& stored, const std::string& path, KneeLevel* level) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string name, DirectoryOf(stored, &taken_));
    const std::string directory = JoinPath(directory_, name);
    POOLMARK_ASSIGN_OR_RETURN(load::Recomputed load, load::ReadLoad(directory));
    POOLMARK_RETURN_IF_ERROR(load::RecomputeLoad(
        directory, [](const load::RequestRecord&) {}, &load));
    out_.of_rate = load.options.mode == load::LoadOptions::Mode::kRate;
    const double asked_level = level->level;
    *level = LevelOf(load, out_.share);
    for (load::Difference& one : load.differences)
      out_.differences.push_back({JoinPath(name, "load.json"), std::move(one)});
    for (load::Difference& one : load::DifferencesOf(stored.at("summary"), load)) {
      one.path = path + "summary." + one.path;
      out_.differences.push_back({kKneeFile, std::move(one)});
    }
    Differs(path + "level", asked_level, level->level);
    Differs(path + "share", stored.at("share"), level->share.has_value() ? Json(*level->share) : Json());
    Differs(path + "client_limited", stored.at("client_limited"), level->client_limited);
    Differs(path + "passed", stored.at("passed"), level->passed);
    const Json& about = load.stored.at("load");
    if (about.at("model").is_string()) out_.model = about["model"].get<std::string>();
    const std::string slo = load.summary.slo.has_value() ? load.summary.slo->name : "";
    if (slo != out_.slo) Differs("slo", out_.slo, slo);
    for (const std::string& note : load.summary.notes)
      out_.notes.push_back(FormatValue(level->level, "") +
                           (out_.of_rate        ? " requests/s: "
                            : level->level == 1 ? " user: "
                                                : " users: ") +
                           note);
    return absl::OkStatus();
  }

  const std::string directory_;
  KneeReport& out_;
  std::set<std::string> taken_;
};

// The search again with what its levels gave: each level is the one that it asks for next.
void Search(Reader* reader, KneeReport* out) {
  const Json& json = out->stored;
  if (!out->problems.empty()) return;
  load::KneeOptions options;
  if (!out->levels.empty()) options.first = out->levels.front().level;
  options.whole = !out->of_rate;
  options.share = out->share;
  load::KneeSearch search(options);
  for (size_t i = 0; i < out->levels.size(); ++i) {
    const KneeLevel& level = out->levels[i];
    const auto next = search.Next();
    reader->Differs("levels[" + std::to_string(i) + "].level", level.level,
                    next.has_value() ? Json(*next) : Json());
    search.Report(level.level, level.client_limited ? 0 : level.share.value_or(0));
  }
  const bool whole = !out->interrupted && out->error.empty();
  if (const auto next = search.Next(); whole && next.has_value())
    reader->Differs("levels[" + std::to_string(out->levels.size()) + "].level", Json(), *next);
  const auto of = [](const std::optional<double>& value) {
    return value.has_value() ? Json(*value) : Json();
  };
  if (whole) out->knee = search.knee();
  out->open_end = search.open_end();
  reader->Differs("knee", json.at("knee"), of(out->knee));
  reader->Differs("highest_passed", json.at("highest_passed"), of(search.knee()));
  reader->Differs("open_end", json.at("open_end"), out->open_end);
}

}  // namespace

Result<KneeReport> ReadKneeReport(const std::string& directory) {
  KneeReport out;
  const std::string path = JoinPath(directory, kKneeFile);
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(out.stored, ParseJson(text, path));
  try {
    const Json& json = out.stored;
    out.interrupted = json.at("interrupted").get<bool>();
    if (json.at("error").is_string()) out.error = json["error"].get<std::string>();
    out.share = json.at("share").get<double>();
    out.slo = json.at("slo").get<std::string>();
    Reader reader(directory, &out);
    for (size_t i = 0; i < json.at("levels").size(); ++i) reader.Level(json["levels"].at(i), i);
    Search(&reader, &out);
  } catch (const Json::exception& error) {
    return InvalidInput(path, std::string("it is no knee.json of this version: ") + error.what());
  }
  std::sort(out.levels.begin(), out.levels.end(),
            [](const KneeLevel& a, const KneeLevel& b) { return a.level < b.level; });
  return out;
}

}  // namespace poolmark::report
