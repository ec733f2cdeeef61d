#include "common/report/workload_page.h"

#include "common/report/format.h"
#include "common/report/html.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

// What was reusable of all sessions, of the measured window, and since the cache was empty.
std::string ReusableTable(const workload::Inspection& in) {
  const workload::Reuse& held = in.window.reuse;
  const auto row = [](const std::string& label, uint64_t requests, int64_t tokens,
                      const Measured<double>& cut, const Measured<double>& uncut) {
    return std::vector<std::string>{label, std::to_string(requests), std::to_string(tokens),
                                    EscapeHtml(FormatValue(cut, "share")),
                                    EscapeHtml(FormatValue(uncut, "share"))};
  };
  std::vector<std::vector<std::string>> rows;
  if (in.window.held)
    rows.push_back(row("All sessions", in.reuse.lifetime_requests, in.reuse.lifetime_prompt_tokens,
                       in.reuse.share(), in.reuse.share_uncut()));
  rows.push_back(row("Measured window", held.requests, held.prompt_tokens, held.share(), held.share_uncut()));
  rows.push_back(row("Lifetime of the cache", held.lifetime_requests, held.lifetime_prompt_tokens,
                     held.share_lifetime(), held.share_lifetime_uncut()));
  std::string text = in.window.measured_line;
  if (in.window.held) text += " at " + in.level;
  if (in.window.runs_out_at)
    text += "; the load runs out of sessions after " +
            FormatValue(std::chrono::duration<double>(*in.window.runs_out_at).count(), "s");
  return "<p>" + EscapeHtml(text) + ".</p>" +
         Table("Reusable", {"", "Requests", "Prompt tokens", "Reusable", "Uncut"}, rows);
}

}  // namespace

std::string WorkloadPage(const workload::Inspection& in) {
  Chart chart = LineChart("Cache size in tokens", "tokens", "Share of prompt tokens", "share");
  chart.id = "curve";
  chart.title = "Reuse by cache size";
  chart.text = "Share of all prompt tokens that one LRU cache of that size serves, in blocks of " +
               std::to_string(in.reuse.block_tokens) + " tokens.";
  if (in.window.held) chart.text += " Of the held load those of its measured window count.";
  chart.x_log = true;
  Series series;
  series.label = "LRU cache";
  for (const auto& [size, share] : in.reuse.curve) {
    if (size > 0) series.points.emplace_back(size, share);
  }
  series.label = in.window.held ? "LRU cache, all sessions" : "LRU cache";
  chart.series.push_back(std::move(series));
  if (in.window.held) {
    Series held;
    held.label = "LRU cache, the held load";
    for (const auto& [size, share] : in.window.reuse.curve) {
      if (size > 0) held.points.emplace_back(size, share);
    }
    chart.series.push_back(std::move(held));
  }
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
  if (in.window.held) card(FormatValue(in.window.reuse.share(), "share"), "reusable in the measured window");
  card(FormatValue(static_cast<double>(in.reuse.working_set_tokens), "tokens"), "working set at " + in.level);
  if (in.working_set_ratio) card(FormatValue(*in.working_set_ratio, "ratio"), "working set ratio");
  card(FormatValue(static_cast<double>(in.reuse.distinct_tokens), "tokens"), "distinct prompt tokens");
  body += "</div><div class=\"charts\">" + ToHtml(chart) + "</div>" + ReusableTable(in) +
          Box("", "Notes", in.notes) + "</section>";
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
