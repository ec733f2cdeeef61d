// The page of a load of its own.
#include <cstdio>

#include "common/load/token_sources.h"
#include "common/report/format.h"
#include "common/report/html.h"
#include "common/report/load_report.h"
#include "common/report/sections.h"
#include "common/report/workloads.h"

namespace poolmark::report {
namespace {

using load::Summary;

// What includes the program's own delay carries this.
const char* Star(const Summary& summary) {
  return summary.client_limited ? " *" : "";
}

std::string Milliseconds(const std::optional<double>& value) {
  return value.has_value() ? FormatValue(*value / 1e3, "s") : "not measured";
}

std::string LevelText(const Json& load) {
  const Json& level = load.at("load");
  const auto text = [&](const char* key) {
    const Json& value = level.at(key);
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  if (level.contains("concurrency")) return text("concurrency") + " users";
  if (level.contains("rate"))
    return text("rate") + " " + (level.value("of", "") == "sessions" ? "sessions" : "requests") + "/s, " +
           level.value("arrivals", "");
  if (level.contains("speedup")) return "a trace at " + text("speedup") + " times its speed";
  return "";
}

std::string LoadHeader(const LoadReport& report, bool simulated) {
  const Summary& s = report.load.summary;
  const Json& load = report.load.stored.at("load");
  std::string badges;
  if (s.client_limited) badges += Badge("client too slow: figures marked *", "bad") + " ";
  if (s.interrupted) badges += Badge("interrupted", "warn") + " ";
  if (simulated) badges += Badge("simulated engine", "warn") + " ";
  if (s.ok == 0) badges += Badge("no request succeeded", "bad") + " ";
  if (!report.load.differences.empty()) badges += Badge("stored figures differ", "bad") + " ";
  if (badges.empty()) badges = Badge("measured", "good");
  char measured[120];
  if (s.whole_run) {
    std::snprintf(measured, sizeof measured, "Measured over the whole run, %.2f s", s.window_s);
  } else if (s.window_start_s == 0) {
    std::snprintf(measured, sizeof measured, "Measured over %.2f s, without a warm-up", s.window_s);
  } else {
    std::snprintf(measured, sizeof measured, "Measured over %.2f s after a %.2f s warm-up", s.window_s,
                  s.window_start_s);
  }
  const std::string model = load.value("model", Json()).is_string() ? load["model"].get<std::string>() : "";
  std::string urls;
  for (const Json& url : load.value("urls", Json::array()))
    urls += (urls.empty() ? "" : ", ") + (url.is_string() ? url.get<std::string>() : "");
  return "<header><h1>Load of " + EscapeHtml(model.empty() ? urls : model) + "</h1><p>" + badges +
         "</p><p class=\"lead\">" + measured + "</p><p>" + EscapeHtml(LevelText(load)) + " · " +
         EscapeHtml(urls) + "</p><p class=\"soft\">Started " +
         EscapeHtml(report.load.stored.value("started", "")) + ".</p></header>\n";
}

std::string Cards(const Summary& s) {
  std::string out = "<div class=\"cards\">";
  const auto card = [&](const std::string& value, const std::string& title) {
    out += "<div class=\"card\"><b>" + EscapeHtml(value) + "</b><span>" + EscapeHtml(title) + "</span></div>";
  };
  card(FormatCount(s.ok) + " of " + FormatCount(s.requests), "requests succeeded");
  if (s.ttft.has_value()) {
    card(Milliseconds(s.ttft->p50) + Star(s), "time to first token, P50");
    card(Milliseconds(s.ttft->p99) + Star(s), "time to first token, P99");
  }
  if (s.time_per_output_token.has_value())
    card(Milliseconds(s.time_per_output_token->p50) + Star(s), "time per output token, P50");
  card(FormatValue(s.output_tokens_per_second, "tokens/s"), "output tokens");
  if (!s.goodput.empty())
    card(FormatValue(s.goodput[0].per_second, "requests/s") + " (" +
             FormatValue(s.goodput[0].share, "share") + ")",
         "goodput");
  card(Milliseconds(s.client.lateness_p99_ms), "own lateness, P99");
  return out + "</div>\n";
}

std::string Figures(const Summary& s) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* name, const std::optional<load::Distribution>& d) {
    if (!d.has_value()) return;
    std::vector<std::string> cells = {std::string(name) + Star(s), FormatCount(d->count)};
    for (const double value : {d->mean, d->p50, d->p90, d->p95, d->p99, d->min, d->max})
      cells.push_back(EscapeHtml(Milliseconds(value)));
    rows.push_back(std::move(cells));
  };
  row("Time to first token", s.ttft);
  row("… from the actual send", s.ttft_from_sent);
  row("… by the kernel's stamps", s.kernel_ttft);
  row("Time to first answer token", s.answer_ttft);
  row("First byte", s.first_byte);
  row("Time per output token", s.time_per_output_token);
  row("Inter-token latency", s.gap);
  row("Request latency", s.latency);
  row("Connection set-up", s.connect);
  if (rows.empty()) return "<p class=\"soft\">No request succeeded, so there is no latency.</p>";
  return Table("Latencies", {"", "Count", "Mean", "P50", "P90", "P95", "P99", "Min", "Max"}, rows) +
         (s.client_limited ? "<p class=\"soft\">* includes the client's own delay</p>" : "");
}

std::string Outcomes(const Summary& s) {
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < load::kOutcomes; ++i) {
    const size_t at = static_cast<size_t>(i);
    if (s.outcomes[at] > 0)
      rows.push_back({std::string(load::OutcomeName(static_cast<load::Outcome>(i))),
                      FormatCount(s.outcomes[at]), EscapeHtml(s.examples[at])});
  }
  if (rows.empty()) return "<p class=\"soft\">No request began in the window.</p>";
  return Table("Outcomes", {"Outcome", "Requests", "An example"}, rows);
}

std::string Client(const LoadReport& report) {
  const load::ClientFigures& c = report.load.summary.client;
  std::vector<std::vector<std::string>> rows = {
      {"Lateness (kernel's receive stamp to program)", Milliseconds(c.lateness_p50_ms),
       Milliseconds(c.lateness_p99_ms), Milliseconds(c.lateness_max_ms)}};
  if (c.schedule_error_p99_ms.has_value())
    rows.push_back({"Schedule error (intended to actual send)", Milliseconds(c.schedule_error_p50_ms),
                    Milliseconds(c.schedule_error_p99_ms), Milliseconds(c.schedule_error_max_ms)});
  for (auto& row : rows) {
    for (auto& cell : row) cell = EscapeHtml(cell);
  }
  char text[300];
  std::snprintf(text, sizeof text,
                "%.1f requests in flight on average, %llu at most; %.2f s of processor time; %.0f MiB; %llu "
                "connections; %d event loops.",
                c.achieved_concurrency, static_cast<unsigned long long>(c.max_in_flight), c.cpu_seconds,
                static_cast<double>(c.max_rss_bytes) / 1048576,
                static_cast<unsigned long long>(c.connections), c.loops * c.processes);
  return Table("The client about itself", {"", "P50", "P99", "Max"}, rows) + "<p>" + text + "</p>";
}

// What the load was, setting by setting.
void AddSettings(const std::string& name, const Json& value, std::vector<std::vector<std::string>>* rows) {
  if (value.is_null() || (value.is_structured() && value.empty())) return;
  if (value.is_object()) {
    for (const auto& [key, inside] : value.items())
      AddSettings(name.empty() ? key : name + "." + key, inside, rows);
    return;
  }
  rows->push_back(
      {EscapeHtml(name),
       EscapeHtml(value.is_string() ? value.get<std::string>()
                                    : value.dump(-1, ' ', false, Json::error_handler_t::replace))});
}

std::string TokenSources(const load::TokenSourceTable& table) {
  std::string out = "<p>By the engines' own counters over the measured window";
  out += table.simulated ? " " + Badge("simulated", "warn") + "</p>" : "</p>";
  std::vector<std::vector<std::string>> rows;
  if (!table.prompt.has_value()) {
    out += "<p class=\"soft\">Not measured: " + EscapeHtml(table.prompt.reason()) + ".</p>";
  } else {
    for (const load::TokenSourceRow& row : table.rows)
      rows.push_back(
          {EscapeHtml(row.name), EscapeHtml(FormatValue(row.tokens, "tokens")),
           *table.prompt > 0 ? EscapeHtml(FormatValue(row.tokens / *table.prompt, "share")) : "–"});
    rows.push_back({"Prompt tokens", EscapeHtml(FormatValue(*table.prompt, "tokens")), ""});
    out += Table("Prompt tokens by source", {"Source", "Tokens", "Share"}, rows);
  }
  std::string engines;
  for (const std::string& engine : table.engines)
    engines += (engines.empty() ? "" : ", ") + EscapeHtml(engine);
  if (!engines.empty()) out += "<p class=\"soft\">Read from " + engines + ".</p>";
  return out + Box("", "Notes", table.notes);
}

std::string Definitions(const Json& json) {
  std::vector<std::vector<std::string>> rows;
  AddSettings("", json.value("definitions", Json::object()), &rows);
  return Table("Definitions", {"Figure", "Meaning"}, rows);
}

std::vector<std::string> LoadDifferences(const LoadReport& report) {
  std::vector<std::string> lines;
  for (const load::Difference& one : report.load.differences)
    lines.push_back(one.path + " is " + one.stored + ", computed again " + one.computed);
  return lines;
}

}  // namespace

std::string LoadPage(const LoadReport& report) {
  const Summary& s = report.load.summary;
  const std::vector<Chart> charts = LoadCharts(report);
  const auto sources = load::ReadTokenSources(report.load.stored.value("prompt_token_sources", Json()));
  std::vector<std::pair<std::string, std::string>> sections;
  std::string body = LoadHeader(report, sources.simulated) + "<main id=\"main\">\n";
  const auto section = [&](const std::string& id, const std::string& name, const std::string& content) {
    sections.emplace_back(id, name);
    body += "<section id=\"" + id + "\"><h2>" + name + "</h2>\n" + content + "</section>\n";
  };
  std::string results = Cards(s) + Box("warn", kScaledLoad, ReplayNotesOf(report)) +
                        Box("bad", "load.json does not follow from the records", LoadDifferences(report)) +
                        Box("warn", "Warnings", s.warnings) +
                        Box(s.client_limited ? "bad" : "", "Notes", s.notes);
  if (!charts.empty()) {
    results += "<div class=\"charts\">";
    for (const Chart& chart : charts) results += ToHtml(chart);
    results += "</div>";
  }
  section("results", "Results", results);
  section("latencies", "Latencies", Figures(s));
  section("outcomes", "Outcomes", Outcomes(s));
  if (!s.prompt_token_sources.empty()) section("sources", "Prompt tokens by source", TokenSources(sources));
  section("client", "This client", Client(report));
  std::vector<std::vector<std::string>> settings;
  AddSettings("", report.load.stored.at("load"), &settings);
  section("load", "The load", Table("Settings", {"Setting", "Value"}, settings));
  section("definitions", "Definitions", Definitions(report.load.stored));
  return Page("Poolmark load", sections, body + "</main>\n", charts);
}

}  // namespace poolmark::report
