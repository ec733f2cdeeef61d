#include "common/report/chart.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/report/format.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

Json Optional(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json List(const std::vector<std::optional<double>>& values) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(Optional(value));
  return list;
}

const char* MarkName(Mark mark) {
  return mark == Mark::kInvalid ? "invalid" : mark == Mark::kPreliminary ? "preliminary" : "";
}

bool IsStarred(const Series& series, size_t i) {
  return i < series.own_delay.size() && series.own_delay[i];
}

bool HasStars(const Chart& chart) {
  const auto starred = [](const Series& series) {
    return std::find(series.own_delay.begin(), series.own_delay.end(), true) != series.own_delay.end();
  };
  return std::any_of(chart.series.begin(), chart.series.end(), starred) ||
         std::any_of(chart.others.begin(), chart.others.end(), HasStars);
}

// How much weight the value has, and whether it includes the client's delay: behind it, in a table.
std::string MarksOf(const Series& series, size_t i) {
  std::string out = IsStarred(series, i) ? " *" : "";
  if (i < series.marks.size() && series.marks[i] != Mark::kNone) {
    out += std::string(" <small class=\"") + (series.marks[i] == Mark::kInvalid ? "bad" : "warn") + "\">" +
           MarkName(series.marks[i]) + "</small>";
  }
  return out;
}

bool IsOfPoints(const Chart& chart) {
  return !chart.series.empty() && !chart.series.front().points.empty();
}

std::string Cell(const std::optional<double>& value, const std::string& unit) {
  return value ? EscapeHtml(FormatValue(*value, unit)) : "<span class=\"none\">not measured</span>";
}

std::string ByLabel(const Chart& chart) {
  std::string out = "<thead><tr><th scope=\"col\">" + EscapeHtml(chart.x_title) + "</th>";
  for (const Series& series : chart.series) out += "<th scope=\"col\">" + EscapeHtml(series.label) + "</th>";
  out += "</tr></thead><tbody>";
  for (size_t i = 0; i < chart.labels.size(); ++i) {
    out += "<tr><th scope=\"row\">" + EscapeHtml(chart.labels[i]) + "</th>";
    for (const Series& series : chart.series) {
      out += "<td>" + Cell(i < series.values.size() ? series.values[i] : std::nullopt, chart.y_unit);
      if (i < series.low.size() && series.low[i] && series.high[i]) {
        out += " <small>(" + EscapeHtml(FormatValue(*series.low[i], chart.y_unit)) + " to " +
               EscapeHtml(FormatValue(*series.high[i], chart.y_unit)) + ")</small>";
      }
      out += MarksOf(series, i) + "</td>";
    }
    out += "</tr>";
  }
  return out + "</tbody>";
}

std::string ByPoint(const Chart& chart) {
  std::string out = "<thead><tr><th scope=\"col\">Series</th><th scope=\"col\">" + EscapeHtml(chart.x_title) +
                    "</th><th scope=\"col\">" + EscapeHtml(chart.y_title) + "</th></tr></thead><tbody>";
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.points.size(); ++i) {
      const auto& [x, y] = series.points[i];
      const std::string note = i < series.notes.size() ? ", " + series.notes[i] : "";
      out += "<tr><th scope=\"row\">" + EscapeHtml(series.label + note) + "</th><td>" +
             EscapeHtml(FormatValue(x, chart.x_unit)) + "</td><td>" +
             EscapeHtml(FormatValue(y, chart.y_unit)) + MarksOf(series, i) + "</td></tr>";
    }
  }
  return out + "</tbody>";
}

std::string TableOf(const Chart& chart) {
  const std::string caption = chart.name.empty() ? "" : "<caption>" + EscapeHtml(chart.name) + "</caption>";
  return "<table>" + caption + (IsOfPoints(chart) ? ByPoint(chart) : ByLabel(chart)) + "</table>";
}

Json Variant(const Chart& chart) {
  Json json = {{"name", chart.name},
               {"kind", chart.kind == Chart::Kind::kBar ? "bar" : "line"},
               {"horizontal", chart.horizontal},
               {"stacked", chart.stacked},
               {"xTitle", chart.x_title},
               {"yTitle", chart.y_title},
               {"xUnit", chart.x_unit},
               {"yUnit", chart.y_unit},
               {"xLog", chart.x_log},
               {"labels", chart.labels},
               {"series", Json::array()},
               {"bands", Json::array()}};
  for (const auto& band : chart.bands)
    json["bands"].push_back({{"from", band.from}, {"to", band.to}, {"label", band.label}});
  for (const Series& series : chart.series) {
    Json one = {{"label", series.label},    {"color", series.color},     {"stack", series.stack},
                {"group", series.group},    {"markers", series.markers}, {"dashed", series.dashed},
                {"stepped", series.stepped}};
    if (!series.points.empty()) {
      one["points"] = Json::array();
      for (const auto& [x, y] : series.points) one["points"].push_back(Json::array({x, y}));
      if (!series.notes.empty()) one["notes"] = series.notes;
    } else {
      one["values"] = List(series.values);
      if (!series.low.empty()) {
        one["low"] = List(series.low);
        one["high"] = List(series.high);
      }
    }
    if (std::any_of(series.marks.begin(), series.marks.end(), [](Mark m) { return m != Mark::kNone; })) {
      one["marks"] = Json::array();
      for (const Mark mark : series.marks) one["marks"].push_back(MarkName(mark));
    }
    if (!series.own_delay.empty()) one["ownDelay"] = series.own_delay;
    json["series"].push_back(std::move(one));
  }
  return json;
}

// Radio buttons: arrow keys choose, without a script of ours.
std::string Choices(const Chart& chart) {
  if (chart.others.empty()) {
    return chart.choice.empty()
               ? ""
               : "<p class=\"choice\">" + EscapeHtml(chart.choice) + ": " + EscapeHtml(chart.name) + "</p>";
  }
  std::string out = "<fieldset class=\"choice\" data-chart=\"" + chart.id + "\"><legend>" +
                    EscapeHtml(chart.choice) + "</legend>";
  const auto one = [&](const Chart& variant, size_t index) {
    out += "<label><input type=\"radio\" name=\"" + chart.id + "-choice\" value=\"" + std::to_string(index) +
           "\"" + (index == 0 ? " checked" : "") + "><span>" + EscapeHtml(variant.name) + "</span></label>";
  };
  one(chart, 0);
  for (size_t i = 0; i < chart.others.size(); ++i) one(chart.others[i], i + 1);
  return out + "</fieldset>";
}

// Room for lying bars grows with their number.
std::string Height(const Chart& chart) {
  if (!chart.horizontal) return "";
  const size_t bars = chart.labels.size() * (chart.stacked ? 1 : std::max<size_t>(1, chart.series.size()));
  return " style=\"flex-basis:" +
         std::to_string(std::max<size_t>(12, 6 + bars * (chart.stacked ? 2 : 1) + chart.labels.size() / 2)) +
         "rem\"";
}

}  // namespace

Chart LineChart(std::string x_title, std::string x_unit, std::string y_title, std::string y_unit) {
  Chart chart;
  chart.kind = Chart::Kind::kLine;
  chart.x_title = std::move(x_title);
  chart.x_unit = std::move(x_unit);
  chart.y_title = std::move(y_title);
  chart.y_unit = std::move(y_unit);
  return chart;
}

bool HasData(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const Series& series) {
    return !series.points.empty() || std::any_of(series.values.begin(), series.values.end(),
                                                 [](const auto& value) { return value.has_value(); });
  });
}

Chart Choose(const std::string& choice, std::vector<Chart> charts) {
  std::erase_if(charts, [](const Chart& chart) { return !HasData(chart); });
  if (charts.empty()) return {};
  Chart first = std::move(charts.front());
  first.choice = choice;
  first.others.assign(std::make_move_iterator(charts.begin() + 1), std::make_move_iterator(charts.end()));
  return first;
}

Json ToJson(const Chart& chart) {
  Json json = {{"id", chart.id}, {"title", chart.title}, {"variants", Json::array({Variant(chart)})}};
  for (const Chart& other : chart.others) json["variants"].push_back(Variant(other));
  return json;
}

std::string ToHtml(const Chart& chart) {
  const std::string title = EscapeHtml(chart.title);
  std::string out = "<figure class=\"chart\" id=\"" + chart.id + "\"><figcaption><h4>" + title + "</h4><p>" +
                    EscapeHtml(chart.text) + "</p></figcaption>" + Choices(chart);
  out += "<div class=\"canvas" + std::string(chart.horizontal ? " lying" : "") + "\"" + Height(chart) +
         "><canvas id=\"" + chart.id + "-canvas\" role=\"img\" aria-label=\"" + title +
         ". The same figures are in the table below.\"></canvas></div><p class=\"marks\"></p>";
  if (HasStars(chart)) out += std::string("<p class=\"marks\">") + kOwnDelay + "</p>";
  out +=
      "<details class=\"figures\"><summary>Figures of this chart</summary><div class=\"scroll\" "
      "role=\"region\" tabindex=\"0\" aria-label=\"" +
      title + ", table\">" + TableOf(chart);
  for (const Chart& other : chart.others) out += TableOf(other);
  return out + "</div></details></figure>\n";
}

}  // namespace poolmark::report
