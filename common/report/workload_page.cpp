#include "common/report/workload_page.h"

#include "common/report/format.h"
#include "common/report/html.h"
#include "common/report/sections.h"

namespace poolmark::report {

std::string WorkloadPage(const workload::Inspection& in) {
  Chart chart;
  chart.id = "curve";
  chart.title = "Reuse by cache size";
  chart.text = "Share of all prompt tokens that one LRU cache of that size serves, in blocks of " +
               std::to_string(in.reuse.curve_block_tokens) + " tokens.";
  chart.kind = Chart::Kind::kLine;
  chart.x_title = "Cache size in tokens";
  chart.x_unit = "tokens";
  chart.y_title = "Share of prompt tokens";
  chart.y_unit = "share";
  chart.x_log = true;
  Series series;
  series.label = "LRU cache";
  for (const auto& [size, share] : in.reuse.curve) {
    if (size > 0) series.points.emplace_back(size, share);
  }
  chart.series.push_back(std::move(series));
  const std::string name = in.file.empty() ? in.shape : in.file.substr(in.file.rfind('/') + 1);
  std::string body = "<header><h1>" + EscapeHtml(name) + "</h1><p class=\"lead\">" +
                     EscapeHtml(in.shape + (in.format.empty() ? "" : ", " + in.format)) +
                     "</p></header><main id=\"main\">";
  body += "<section id=\"reuse\"><h2>Reuse</h2><div class=\"cards\">";
  const auto card = [&](const std::string& value, const std::string& title) {
    body +=
        "<div class=\"card\"><b>" + EscapeHtml(value) + "</b><span>" + EscapeHtml(title) + "</span></div>";
  };
  card(FormatValue(in.reuse.share(), "share"),
       "reusable, in whole blocks of " + std::to_string(in.reuse.block_tokens) + " tokens");
  card(FormatValue(in.reuse.share_uncut(), "share"), "reusable, uncut");
  card(FormatValue(static_cast<double>(in.reuse.working_set_tokens), "tokens"), "working set at " + in.level);
  if (in.working_set_ratio) card(FormatValue(*in.working_set_ratio, "ratio"), "working set ratio");
  card(FormatValue(static_cast<double>(in.reuse.distinct_tokens), "tokens"), "distinct prompt tokens");
  body +=
      "</div><div class=\"charts\">" + ToHtml(chart) + "</div>" + Box("", "Notes", in.notes) + "</section>";
  const auto row = [](const std::string& label, const workload::Spread& s) {
    return std::vector<std::string>{label,
                                    EscapeHtml(FormatValue(s.mean, "")),
                                    std::to_string(s.p50),
                                    std::to_string(s.p90),
                                    std::to_string(s.p99),
                                    std::to_string(s.max)};
  };
  body += "<section id=\"lengths\"><h2>Lengths</h2>" +
          Table("Lengths", {"", "Mean", "P50", "P90", "P99", "Max"},
                {row("Prompt tokens", in.prompt), row("Output tokens", in.output),
                 row("Turns of a session", in.turns)}) +
          "<p>" + std::to_string(in.reuse.requests) + " requests in " + std::to_string(in.sessions) +
          " sessions.</p></section></main>";
  return Page("Workload " + name, {{"reuse", "Reuse"}, {"lengths", "Lengths"}}, body, {chart});
}

}  // namespace poolmark::report
