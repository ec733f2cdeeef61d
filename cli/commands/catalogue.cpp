#include "cli/commands/catalogue.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/http/client.h"
#include "common/prom/catalogue.h"
#include "common/prom/evidence.h"
#include "common/prom/version_source.h"

namespace poolmark::cli {
namespace {

constexpr char kInstalled[] = "/usr/share/poolmark/catalogue";

}  // namespace

// $POOLMARK_CATALOGUE; else the one beside the program, installed anywhere or in a source tree; else the
// system's.
std::string DefaultCatalogue() {
  const char* given = std::getenv("POOLMARK_CATALOGUE");
  if (given != nullptr && *given != '\0') return given;
  char program[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program);
  std::string at(program, static_cast<size_t>(std::max<ssize_t>(0, n)));
  for (int i = 0; i < 4 && at.find('/') != std::string::npos; ++i) {
    at.resize(at.rfind('/'));
    for (const char* below : {"/share/poolmark/catalogue", "/deploy/catalogue"}) {
      if (FileExists(at + below)) return at + below;
    }
  }
  return kInstalled;
}

namespace {

struct CatalogueFlags {
  std::string catalogue, evidence, dialect, output = "table";
  std::string url, file, version, note;
  bool dry_run = false;
};

int FailAs(const Status& status, const CatalogueFlags& flags) {
  WriteErr(ErrorText({ErrorOf(status)}, FormatOf(flags.output)));
  return ExitCodeOf(status);
}

// In the controller's state directory: $POOLMARK_STATE, else where the service keeps it.
std::string DefaultEvidence() {
  const char* given = std::getenv("POOLMARK_STATE");
  return JoinPath(given != nullptr && *given != '\0' ? given : "/var/lib/poolmark", prom::kEvidenceFile);
}

Result<prom::Catalogue> LoadBoth(const CatalogueFlags& flags) {
  POOLMARK_ASSIGN_OR_RETURN(prom::Catalogue catalogue, prom::Catalogue::Load(flags.catalogue));
  std::vector<std::string> skipped;
  POOLMARK_RETURN_IF_ERROR(prom::ApplyEvidence(flags.evidence, &catalogue, &skipped));
  for (const std::string& line : skipped)
    WriteErr(absl::StrCat("poolmark: left out: ", Printable(line), "\n"));
  return catalogue;
}

Json DialectJson(const prom::Dialect& dialect) {
  Json live = Json::array(), series = Json::array();
  for (const prom::Evidence& evidence : dialect.live) {
    live.push_back({{"version", evidence.version}, {"date", evidence.date}, {"evidence", evidence.evidence}});
  }
  for (const prom::Series& entry : dialect.series) {
    series.push_back({{"name", entry.name},
                      {"kind", std::string(prom::KindName(entry.kind))},
                      {"unit", entry.unit},
                      {"versions", entry.versions.ToString()},
                      {"seen", entry.seen},
                      {"meaning", entry.meaning}});
  }
  Json sources = Json::array();
  for (const prom::TokenSource& source : dialect.sources) {
    Json labels = Json::object();
    for (const auto& [label, value] : source.labels) labels[label] = value;
    sources.push_back({{"gives", source.gives},
                       {"series", source.series},
                       {"labels", labels},
                       {"versions", source.versions.ToString()},
                       {"moment", source.moment}});
  }
  return {{"dialect", dialect.name},
          {"title", dialect.title},
          {"role", dialect.role},
          {"simulated", dialect.simulated},
          {"live", live},
          {"series", series},
          {"sources", sources}};
}

// "gpu, computed at first_token": the parts of a prompt that a series gives, and when it counts them.
std::string Gives(const prom::Dialect& dialect, const std::string& series) {
  std::string text, moment;
  std::set<std::string> told;
  for (const prom::TokenSource& source : dialect.sources) {
    if (source.series != series) continue;
    moment = source.moment;
    if (told.insert(source.gives).second) absl::StrAppend(&text, text.empty() ? "" : ", ", source.gives);
  }
  return text.empty() ? "-" : absl::StrCat(text, " at ", moment);
}

std::string ListOf(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    absl::StrAppend(&text, text.empty() ? "" : " ", word == "*" ? "every" : word);
  return text.empty() ? "-" : text;
}

Result<int> List(const CatalogueFlags& flags) {
  POOLMARK_ASSIGN_OR_RETURN(const prom::Catalogue catalogue, LoadBoth(flags));
  const Format format = FormatOf(flags.output);
  if (!flags.dialect.empty()) {
    const prom::Dialect* dialect = catalogue.Find(flags.dialect);
    if (dialect == nullptr)
      return NotFound(flags.dialect, "no such dialect in the catalogue", "see 'poolmark catalogue list'");
    if (format != Format::kTable) {
      WriteOut(JsonText(DialectJson(*dialect), format));
      return kExitOk;
    }
    Table table({"SERIES", "KIND", "UNIT", "VERSIONS", "SEEN LIVE IN", "PROMPT TOKENS"});
    for (const prom::Series& series : dialect->series) {
      const std::string versions = series.versions.ToString();
      table.Add({{series.name},
                 {std::string(prom::KindName(series.kind))},
                 {series.unit},
                 {versions.empty() ? "all" : versions},
                 {ListOf(series.seen)},
                 {Gives(*dialect, series.name)}});
    }
    WriteOut(absl::StrCat(dialect->title, " (", dialect->role, ")\n", dialect->double_counting, "\n\n",
                          table.Text()));
    return kExitOk;
  }
  std::vector<Json> rows;
  Table table({"DIALECT", "ROLE", "SERIES", "SEEN LIVE", "VERSIONS SEEN LIVE"});
  for (const auto& [name, dialect] : catalogue.dialects()) {
    std::vector<std::string> versions;
    for (const prom::Evidence& evidence : dialect.live) versions.push_back(evidence.version);
    const auto seen = std::count_if(dialect.series.begin(), dialect.series.end(),
                                    [](const prom::Series& series) { return !series.seen.empty(); });
    table.Add({{name},
               {dialect.role},
               {std::to_string(dialect.series.size())},
               {std::to_string(seen)},
               {dialect.simulated ? "simulated" : ListOf(versions)}});
    rows.push_back({{"dialect", name},
                    {"role", dialect.role},
                    {"series", dialect.series.size()},
                    {"seen", seen},
                    {"versions", versions},
                    {"simulated", dialect.simulated}});
  }
  WriteOut(format == Format::kTable ? table.Text() : JsonRows(rows, format));
  return kExitOk;
}

Result<std::string> Get(http::Client& client, const http::Url& url) {
  http::Request request;
  request.url = url;
  request.headers.emplace_back("Accept", "text/plain;version=0.0.4, application/json;q=0.5");
  POOLMARK_ASSIGN_OR_RETURN(http::Response response, client.Send(request));
  if (response.status != 200)
    return Unavailable(url.ToString(), absl::StrCat("answered with status ", response.status));
  return std::move(response.body);
}

// What the same server answers where its dialect says that it tells its version.
std::string AskVersion(http::Client& client, http::Url url, const prom::Dialect& dialect) {
  const prom::VersionSource source = prom::ParseVersionFrom(dialect.version_from);
  if (source.kind != prom::VersionSource::Kind::kHttp) return "";
  url.target = source.target;
  const auto text = Get(client, url);
  return text.ok() ? prom::VersionIn(source, *text) : "";
}

// INFO of Redis: "name:value" lines.
std::vector<std::string> InfoNames(const std::string& text) {
  std::vector<std::string> names;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line[0] == '#') continue;
    names.push_back(line.substr(0, colon));
    if (line.rfind("db", 0) == 0) names.push_back("keys");
  }
  return names;
}

Result<int> Confirm(const CatalogueFlags& flags) {
  POOLMARK_ASSIGN_OR_RETURN(prom::Catalogue catalogue, LoadBoth(flags));
  const auto client = http::MakeClient();
  std::string text, version = flags.version;
  if (!flags.url.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(const http::Url url, http::ParseUrl(flags.url));
    POOLMARK_ASSIGN_OR_RETURN(text, Get(*client, url));
  } else {
    POOLMARK_ASSIGN_OR_RETURN(text, ReadFile(flags.file, 16u << 20));
  }

  const prom::Dialect* dialect = flags.dialect.empty() ? nullptr : catalogue.Find(flags.dialect);
  if (!flags.dialect.empty() && dialect == nullptr)
    return NotFound(flags.dialect, "no such dialect in the catalogue", "see 'poolmark catalogue list'");
  std::set<std::string> names;
  if (dialect != nullptr && dialect->name == "redis") {
    for (std::string& name : InfoNames(text)) names.insert(std::move(name));
  } else {
    POOLMARK_ASSIGN_OR_RETURN(const prom::Page page, prom::ParseText(text));
    if (dialect == nullptr) dialect = prom::GuessDialect(catalogue, page.samples);
    if (dialect == nullptr)
      return InvalidInput(flags.url + flags.file, "no dialect of the catalogue knows a series of this page",
                          "give --dialect");
    for (const prom::Sample& sample : page.samples) names.insert(sample.name);
    // The simulated engine uses vLLM's names, and proves nothing about vLLM.
    if (names.count("poolmark_sim_info") != 0) dialect = catalogue.Find("sim");
  }
  if (dialect == nullptr || dialect->simulated)
    return Precondition("sim",
                        "results on the simulated engine are never publishable: there is nothing to confirm");
  if (version.empty()) version = prom::VersionIn(prom::ParseVersionFrom(dialect->version_from), text);
  if (version.empty() && !flags.url.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(const http::Url url, http::ParseUrl(flags.url));
    version = AskVersion(*client, url, *dialect);
  }
  version = prom::PlainVersion(version);
  if (version.empty())
    return InvalidInput(dialect->name, "its version is not known",
                        absl::StrCat("give --version", dialect->version_from.empty() ? "" : ", as from: ",
                                     dialect->version_from));

  prom::EvidenceRecord record;
  record.dialect = dialect->name;
  record.evidence = {
      version, IsoLocal(RealClock().Wall()).substr(0, 10),
      flags.note.empty() ? absl::StrCat("page of ", flags.url.empty() ? flags.file : flags.url) : flags.note};
  std::vector<std::string> newly, missing;
  for (const prom::Series& series : dialect->series) {
    if (names.count(series.name) != 0) {
      record.series.push_back(series.name);
      if (!catalogue.Confirmed(dialect->name, version, series.name)) newly.push_back(series.name);
    } else if (series.versions.Contains(version)) {
      missing.push_back(series.name);
    }
  }
  const bool write = !flags.dry_run && !newly.empty();
  if (write) {
    const Status written = prom::AppendEvidence(flags.evidence, record);
    if (!written.ok())
      return Unavailable(flags.evidence, ErrorOf(written).message,
                         "name the file in the controller's state with --evidence, or its state directory in "
                         "POOLMARK_STATE");
  }

  const Format format = FormatOf(flags.output);
  if (format != Format::kTable) {
    WriteOut(JsonText({{"dialect", dialect->name},
                       {"version", version},
                       {"seen", record.series},
                       {"newly_confirmed", newly},
                       {"not_on_page", missing},
                       {"written", write ? flags.evidence : ""}},
                      format));
    return kExitOk;
  }
  std::string out =
      absl::StrCat(dialect->title, " ", version, ": ", record.series.size(),
                   " series of the catalogue on the page, ", newly.size(), " newly confirmed\n");
  for (const std::string& name : newly) absl::StrAppend(&out, "  + ", Printable(name), "\n");
  if (!missing.empty()) {
    absl::StrAppend(
        &out,
        "not on this page (a series may appear only after its first event, or with another connector):\n");
    for (const std::string& name : missing) absl::StrAppend(&out, "    ", Printable(name), "\n");
  }
  absl::StrAppend(
      &out, write ? absl::StrCat("written to ", flags.evidence, "\n")
                  : std::string(flags.dry_run ? "nothing written (--dry-run)\n" : "nothing new to write\n"));
  WriteOut(out);
  return kExitOk;
}

void AddCommon(CLI::App* command, CatalogueFlags* flags) {
  command->add_option("--catalogue", flags->catalogue, "Directory of the catalogue's files")
      ->default_str("beside the program, else /usr/share/poolmark/catalogue");
  command->add_option("--evidence", flags->evidence, "File of evidence in the controller's state")
      ->default_str("/var/lib/poolmark/catalogue-evidence.jsonl");
  command->add_option("-o,--output", flags->output, "table, json or jsonl")
      ->check(CLI::IsMember({"table", "json", "jsonl"}));
}

void Finish(const Result<int>& result, const CatalogueFlags& flags, int& exit_code) {
  exit_code = result.ok() ? *result : FailAs(result.status(), flags);
}

}  // namespace

void AddCatalogue(CLI::App& app, int& exit_code) {
  CLI::App* catalogue =
      app.add_subcommand("catalogue", "Series that results rest on, and live evidence for them");
  catalogue->require_subcommand(1);
  const auto flags = std::make_shared<CatalogueFlags>();
  flags->catalogue = DefaultCatalogue();
  flags->evidence = DefaultEvidence();

  CLI::App* list = catalogue->add_subcommand("list", "Dialects, or the series of one");
  AddCommon(list, flags.get());
  list->add_option("dialect", flags->dialect, "Engine, cache, router, store or exporter");
  list->callback([flags, &exit_code] { Finish(List(*flags), *flags, exit_code); });

  CLI::App* confirm =
      catalogue->add_subcommand("confirm", "Adds the series of a running program's page as live evidence");
  AddCommon(confirm, flags.get());
  auto* url = confirm->add_option("--url", flags->url,
                                  "Metrics page, after some requests: http://127.0.0.1:8000/metrics");
  auto* file = confirm->add_option("--file", flags->file, "A saved page (for Redis: the output of INFO)");
  url->excludes(file);
  confirm->add_option("--dialect", flags->dialect, "Default: the one that knows most of the page");
  confirm->add_option("--version", flags->version,
                      "Default: what the program answers where its dialect says (version_from)");
  confirm->add_option("--note", flags->note, "What was running and how");
  confirm->add_flag("--dry-run", flags->dry_run, "Show, write nothing");
  confirm->callback([flags, &exit_code] {
    if (flags->url.empty() == flags->file.empty()) {
      exit_code = FailAs(InvalidInput("catalogue confirm", "give --url or --file"), *flags);
      return;
    }
    Finish(Confirm(*flags), *flags, exit_code);
  });
}

}  // namespace poolmark::cli
