// Reads deploy/catalogue/*.yaml. Kept apart because yaml-cpp is a heavy header.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/prom/catalogue.h"

namespace poolmark::prom {
namespace {

// Collects every error of one file with its line.
class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}

  void Fail(const YAML::Node& node, const std::string& message, const std::string& hint = "") {
    const YAML::Mark mark = node.Mark();
    Error error{absl::StatusCode::kInvalidArgument, "catalogue", where_, message, hint};
    if (mark.line >= 0) error.where = absl::StrCat(where_, ":", mark.line + 1, ":", mark.column + 1);
    errors.push_back(std::move(error));
  }
  // Every key must be one of `known`.
  bool Keys(const YAML::Node& map, const std::set<std::string>& known, const std::string& what) {
    if (!map.IsMap()) {
      Fail(map, absl::StrCat(what, " must be a mapping"));
      return false;
    }
    for (const auto& entry : map) {
      const std::string key = entry.first.Scalar();
      if (known.count(key) == 0) Fail(entry.first, absl::StrCat("unknown key '", key, "' in ", what));
    }
    return true;
  }
  std::string Text(const YAML::Node& map, const char* key, bool required = false) {
    const YAML::Node node = map[key];
    if (!node) {
      if (required) Fail(map, absl::StrCat("'", key, "' is missing"));
      return "";
    }
    if (!node.IsScalar()) {
      Fail(node, absl::StrCat("'", key, "' must be a text"));
      return "";
    }
    return node.Scalar();
  }
  std::vector<std::string> Texts(const YAML::Node& map, const char* key) {
    std::vector<std::string> texts;
    const YAML::Node node = map[key];
    if (!node) return texts;
    if (!node.IsSequence()) {
      Fail(node, absl::StrCat("'", key, "' must be a list"));
      return texts;
    }
    for (const auto& item : node) {
      if (item.IsScalar()) {
        texts.push_back(item.Scalar());
      } else {
        Fail(item, absl::StrCat("'", key, "' must be a list of texts"));
      }
    }
    return texts;
  }
  VersionRange Range(const YAML::Node& map) {
    auto range = VersionRange::Parse(Text(map, "versions"));
    if (range.ok()) return *range;
    Fail(map["versions"], std::string(range.status().message()));
    return {};
  }
  bool Flag(const YAML::Node& map, const char* key) {
    const std::string text = Text(map, key);
    if (!text.empty() && text != "true" && text != "false")
      Fail(map[key], absl::StrCat("'", key, "' must be true or false"));
    return text == "true";
  }

  Errors errors;

 private:
  std::string where_;
};

Series ReadSeries(const YAML::Node& node, Reader* reader) {
  Series series;
  series.name = reader->Text(node, "name", true);
  const std::string kind = reader->Text(node, "kind", true);
  bool known = false;
  for (const Kind candidate : {Kind::kCounter, Kind::kGauge, Kind::kPeak, Kind::kLastEvent}) {
    if (KindName(candidate) != kind) continue;
    series.kind = candidate;
    known = true;
  }
  if (!known)
    reader->Fail(node, absl::StrCat("kind '", kind, "' of ", series.name,
                                    " is none of counter, gauge, peak, last_event"));
  series.unit = reader->Text(node, "unit", true);
  series.meaning = reader->Text(node, "meaning", true);
  if (node["factor"]) {
    try {
      series.factor = node["factor"].as<double>();
    } catch (const YAML::Exception&) {
      reader->Fail(node["factor"], "'factor' must be a number");
    }
  }
  const std::string width = reader->Text(node, "width_bits");
  if (width == "32") {
    series.width_bits = 32;
  } else if (!width.empty() && width != "64") {
    reader->Fail(node["width_bits"], "'width_bits' must be 32 or 64");
  }
  series.versions = reader->Range(node);
  series.seen = reader->Texts(node, "seen");
  series.split = reader->Texts(node, "split");
  series.fold = reader->Texts(node, "fold");
  series.max = reader->Flag(node, "max");
  return series;
}

TokenSource ReadSource(const YAML::Node& node, Reader* reader) {
  static const std::set<std::string> kGives = {"prompt", "gpu",      "host",     "storage",
                                               "remote", "computed", "external", "unattributed"};
  TokenSource source;
  source.gives = reader->Text(node, "gives", true);
  if (kGives.count(source.gives) == 0)
    reader->Fail(node, absl::StrCat("'gives: ", source.gives, "' is no part of a prompt"));
  source.series = reader->Text(node, "series", true);
  if (node["labels"] && node["labels"].IsMap()) {
    for (const auto& label : node["labels"])
      source.labels.emplace_back(label.first.Scalar(), label.second.Scalar());
  } else if (node["labels"]) {
    reader->Fail(node["labels"], "'labels' must be a mapping");
  }
  source.versions = reader->Range(node);
  source.moment = reader->Text(node, "moment", true);
  return source;
}

// Sources must name series of the file, evidence must be given for every version that was seen.
void CheckTogether(const Dialect& dialect, const YAML::Node& root, Reader* reader) {
  std::set<std::string> names, versions;
  for (const Series& series : dialect.series) {
    if (!names.insert(series.name).second)
      reader->Fail(root, absl::StrCat("series ", series.name, " is listed twice"));
  }
  for (const Evidence& evidence : dialect.live) versions.insert(evidence.version);
  for (const Series& series : dialect.series) {
    for (const std::string& seen : series.seen) {
      if (seen != "*" && versions.count(seen) == 0) {
        reader->Fail(root, absl::StrCat("series ", series.name, " was seen in ", seen,
                                        ", for which 'live' has no evidence"));
      }
    }
  }
  for (const TokenSource& source : dialect.sources) {
    if (names.count(source.series) == 0)
      reader->Fail(root,
                   absl::StrCat("source '", source.gives, "' names the unknown series ", source.series));
  }
  if (!dialect.witness.empty() && names.count(dialect.witness) == 0) {
    reader->Fail(root, absl::StrCat("witness ", dialect.witness, " is no series of the file"));
  }
}

Dialect ReadRoot(const YAML::Node& root, Reader* reader) {
  Dialect dialect;
  if (!reader->Keys(root,
                    {"version", "dialect", "aliases", "title", "role", "simulated", "version_from", "witness",
                     "double_counting", "live", "series", "sources"},
                    "the catalogue file")) {
    return dialect;
  }
  if (reader->Text(root, "version", true) != "1") reader->Fail(root, "'version' must be 1");
  dialect.name = reader->Text(root, "dialect", true);
  dialect.aliases = reader->Texts(root, "aliases");
  dialect.title = reader->Text(root, "title", true);
  dialect.role = reader->Text(root, "role", true);
  dialect.simulated = reader->Flag(root, "simulated");
  dialect.version_from = reader->Text(root, "version_from");
  dialect.witness = reader->Text(root, "witness");
  dialect.double_counting = reader->Text(root, "double_counting");
  for (const auto& node : root["live"]) {
    if (!reader->Keys(node, {"version", "date", "evidence"}, "'live'")) continue;
    dialect.live.push_back({reader->Text(node, "version", true), reader->Text(node, "date", true),
                            reader->Text(node, "evidence", true)});
  }
  for (const auto& node : root["series"]) {
    if (!reader->Keys(node,
                      {"name", "kind", "unit", "factor", "meaning", "versions", "seen", "width_bits", "split",
                       "max", "fold"},
                      "'series'")) {
      continue;
    }
    dialect.series.push_back(ReadSeries(node, reader));
  }
  if (dialect.series.empty()) reader->Fail(root, "'series' is empty");
  for (const auto& node : root["sources"]) {
    if (!reader->Keys(node, {"gives", "series", "labels", "versions", "moment"}, "'sources'")) continue;
    dialect.sources.push_back(ReadSource(node, reader));
  }
  CheckTogether(dialect, root, reader);
  return dialect;
}

}  // namespace

Result<Dialect> Catalogue::ReadDialect(std::string_view yaml, const std::string& where) {
  try {
    Reader reader(where);
    const YAML::Node root = YAML::Load(std::string(yaml));
    Dialect dialect = ReadRoot(root, &reader);
    if (!reader.errors.empty()) return ToStatus(reader.errors);
    for (size_t i = 0; i < dialect.series.size(); ++i) dialect.index[dialect.series[i].name] = i;
    return dialect;
  } catch (const YAML::Exception& exception) {
    return InvalidInput(absl::StrCat(where, ":", exception.mark.line + 1), exception.msg);
  }
}

Result<Catalogue> Catalogue::Load(const std::string& directory) {
  POOLMARK_ASSIGN_OR_RETURN(const auto names, ListDir(directory));
  Catalogue catalogue;
  Errors errors;
  for (const std::string& name : names) {
    if (name.size() < 6 || name.substr(name.size() - 5) != ".yaml") continue;
    const std::string path = JoinPath(directory, name);
    auto text = ReadFile(path, 4u << 20);
    auto dialect = text.ok() ? ReadDialect(*text, path) : Result<Dialect>(text.status());
    if (!dialect.ok()) {
      errors.push_back(ErrorOf(dialect.status()));
    } else if (catalogue.Find(dialect->name) != nullptr) {
      errors.push_back({absl::StatusCode::kInvalidArgument, "catalogue", path,
                        absl::StrCat("dialect '", dialect->name, "' is defined by two files"), ""});
    } else {
      catalogue.Add(std::move(*dialect));
    }
  }
  if (!errors.empty()) return ToStatus(errors);
  if (catalogue.dialects_.empty())
    return NotFound(directory, "no catalogue files (*.yaml)", "install deploy/catalogue");
  return catalogue;
}

}  // namespace poolmark::prom
