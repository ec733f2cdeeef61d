#include "common/stats/slo.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"

namespace poolmark::stats {
namespace {

std::string At(const std::string& where, const YAML::Node& node) {
  const auto mark = node.Mark();
  return mark.line < 0 ? where
                       : where + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

void ReadOne(const YAML::Node& node, const std::string& where, std::vector<Slo>* out, Errors* errors) {
  const auto fail = [&](const YAML::Node& at, std::string message) {
    errors->push_back({absl::StatusCode::kInvalidArgument, "slo", At(where, at), std::move(message), ""});
  };
  if (!node.IsMap()) return fail(node, "a preset must be a map");
  Slo slo;
  for (const auto& pair : node) {
    const auto key = pair.first.as<std::string>("");
    if (!pair.second.IsScalar()) {
      fail(pair.second, key + " must be a text");
      continue;
    }
    const auto text = pair.second.as<std::string>("");
    if (key == "name")
      slo.name = text;
    else if (key == "title")
      slo.title = text;
    else if (key == "source")
      slo.source = text;
    else if (key == "note")
      slo.note = text;
    else if (key == "share") {
      char* end = nullptr;
      const double share = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != 0 || !(share > 0 && share <= 1)) {
        fail(pair.second, "share is '" + text + "', must be above 0 and at most 1, such as 0.99");
        continue;
      }
      slo.share = share;
    } else if (key == "ttft" || key == "tpot") {
      const auto time = ParseDuration(text);
      if (!time.ok() || *time <= Nanoseconds(0)) {
        fail(pair.second, key + " is '" + text + "', must be a duration above zero such as 450ms");
        continue;
      }
      (key == "ttft" ? slo.ttft_seconds : slo.tpot_seconds) = std::chrono::duration<double>(*time).count();
    } else {
      fail(pair.first,
           "unknown key '" + key + "': a preset has name, title, ttft, tpot, share, source, note");
    }
  }
  for (const auto& [name, missing] : {std::pair{"name", slo.name.empty()},
                                      {"source", slo.source.empty()},
                                      {"ttft", slo.ttft_seconds == 0},
                                      {"tpot", slo.tpot_seconds == 0}}) {
    if (missing) fail(node, std::string(name) + " is missing");
  }
  out->push_back(std::move(slo));
}

}  // namespace

Result<std::vector<Slo>> ReadSlos(std::string_view yaml, const std::string& where) {
  std::vector<Slo> out;
  Errors errors;
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (!root.IsSequence()) return InvalidInput(where, "must be a list of presets");
    for (const YAML::Node& node : root) ReadOne(node, where, &out, &errors);
  } catch (const YAML::Exception& error) {
    return InvalidInput(where + ":" + std::to_string(error.mark.line + 1), error.msg);
  }
  if (!errors.empty()) return ToStatus(errors);
  return out;
}

std::string WriteSlos(const std::vector<Slo>& slos) {
  const auto duration = [](double seconds) {
    const Nanoseconds exact(std::llround(seconds * 1e9));
    const std::string text = FormatDuration(exact);
    const auto read = ParseDuration(text);
    return read.ok() && *read == exact ? text : std::to_string(exact.count()) + "ns";
  };
  YAML::Emitter out;
  out << YAML::BeginSeq;
  for (const Slo& slo : slos) {
    out << YAML::BeginMap;
    out << YAML::Key << "name" << YAML::Value << slo.name;
    if (!slo.title.empty()) out << YAML::Key << "title" << YAML::Value << slo.title;
    out << YAML::Key << "ttft" << YAML::Value << duration(slo.ttft_seconds);
    out << YAML::Key << "tpot" << YAML::Value << duration(slo.tpot_seconds);
    if (slo.share) out << YAML::Key << "share" << YAML::Value << PythonFloat(*slo.share);
    out << YAML::Key << "source" << YAML::Value << slo.source;
    if (!slo.note.empty()) out << YAML::Key << "note" << YAML::Value << slo.note;
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
  return std::string(out.c_str()) + "\n";
}

Result<std::vector<Slo>> ReadSloDirectory(const std::string& directory) {
  POOLMARK_ASSIGN_OR_RETURN(const auto names, ListDir(directory));
  std::vector<Slo> all;
  for (const std::string& name : names) {
    if (!name.ends_with(".yaml")) continue;
    const std::string path = JoinPath(directory, name);
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    POOLMARK_ASSIGN_OR_RETURN(auto slos, ReadSlos(text, path));
    for (Slo& slo : slos) {
      const bool twice =
          std::any_of(all.begin(), all.end(), [&](const Slo& other) { return other.name == slo.name; });
      if (twice) return InvalidInput(path, "the preset " + slo.name + " is there twice");
      all.push_back(std::move(slo));
    }
  }
  return all;
}

Result<std::vector<Slo>> PickSlos(const std::vector<Slo>& all, const std::vector<std::string>& names) {
  std::vector<Slo> out;
  for (const std::string& name : names) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const Slo& slo) { return slo.name == name; });
    if (at == all.end()) {
      std::string known;
      for (const Slo& slo : all) known += (known.empty() ? "" : ", ") + slo.name;
      return InvalidInput("slo", "there is no preset '" + name + "'", "known: " + known);
    }
    out.push_back(*at);
  }
  return out;
}

}  // namespace poolmark::stats
