// Parts of the report below the pictures, each an HTML fragment. Internal to this directory; pure.
#pragma once
#include <string>

#include "common/report/recompute.h"

namespace poolmark::report {

// Light, dark or as the system has it; theme.js shows it.
inline constexpr char kThemeChoice[] =
    "<label hidden><span>Theme</span> <select id=\"theme\" aria-label=\"Theme\"><option value=\"\">as the "
    "system</option><option value=\"light\">light</option><option "
    "value=\"dark\">dark</option></select></label>";

std::string Badge(const std::string& text, const std::string& style);
// "<div class="box bad"><p>title</p><ul>…</ul></div>"; nothing for an empty list.
std::string Box(const std::string& style, const std::string& title, const std::vector<std::string>& lines);
// Table in a scrolling region. Cells are HTML already; the first of a row is its head.
std::string Table(const std::string& label, const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows, const std::string& style = "");

// The sentence below a table or a chart with such marks, as HTML.
inline constexpr char kOwnDelay[] =
    "* includes the load generator's own delay: its machine was too slow for the load.";
// Whether the figure includes the load generator's own delay: `*` in tables.
bool IsMarked(const results::SummaryPoint& point, const std::string& figure);
// Whether a mean of the comparison is such a figure.
bool IsMarked(const std::vector<results::SummaryPoint>& points, const results::SummaryComparison& one);
std::string PointTable(const results::SummaryPoint& point);
std::string ComparisonSection(const results::SummaryFile& summary);
// Nothing where no stack compresses KV.
std::string AccuracySection(const Recomputed& job);
std::string RepeatSection(const Recomputed& job);
std::string TransferSection(const Recomputed& job);
std::string StepsSection(const Recomputed& job);
std::string PlanSection(const Recomputed& job);
std::string SourcesSection(const Recomputed& job);
std::string FilesSection(const Recomputed& job);

}  // namespace poolmark::report
