#include "common/report/chart.h"

#include <nlohmann/json.hpp>

#include "common/report/format.h"

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

std::string Cell(const std::optional<double>& value, const std::string& unit) {
  return value ? Escape(FormatValue(*value, unit)) : "<span class=\"none\">not measured</span>";
}

std::string ByLabel(const Chart& chart) {
  std::string out = "<thead><tr><th scope=\"col\">" + Escape(chart.x_title) + "</th>";
  for (const Series& series : chart.series) out += "<th scope=\"col\">" + Escape(series.label) + "</th>";
  out += "</tr></thead><tbody>";
  for (size_t i = 0; i < chart.labels.size(); ++i) {
    out += "<tr><th scope=\"row\">" + Escape(chart.labels[i]) + "</th>";
    for (const Series& series : chart.series) {
      out += "<td>" + Cell(i < series.values.size() ? series.values[i] : std::nullopt, chart.y_unit);
      if (i < series.low.size() && series.low[i] && series.high[i]) {
        out += " <small>(" + Escape(FormatValue(*series.low[i], chart.y_unit)) + " to " +
               Escape(FormatValue(*series.high[i], chart.y_unit)) + ")</small>";
      }
      out += "</td>";
    }
    out += "</tr>";
  }
  return out + "</tbody>";
}

std::string ByPoint(const Chart& chart) {
  std::string out = "<thead><tr><th scope=\"col\">Series</th><th scope=\"col\">" + Escape(chart.x_title) +
                    "</th><th scope=\"col\">" + Escape(chart.y_title) + "</th></tr></thead><tbody>";
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      out += "<tr><th scope=\"row\">" + Escape(series.label) + "</th><td>" +
             Escape(FormatValue(x, chart.x_unit)) + "</td><td>" + Escape(FormatValue(y, chart.y_unit)) +
             "</td></tr>";
    }
  }
  return out + "</tbody>";
}

}  // namespace

Json ToJson(const Chart& chart) {
  Json json = {{"id", chart.id},
               {"title", chart.title},
               {"kind", chart.kind == Chart::Kind::kBar ? "bar" : "line"},
               {"stacked", chart.stacked},
               {"xTitle", chart.x_title},
               {"yTitle", chart.y_title},
               {"xUnit", chart.x_unit},
               {"yUnit", chart.y_unit},
               {"xLog", chart.x_log},
               {"labels", chart.labels},
               {"series", Json::array()},
               {"bands", Json::array()}};
  for (const auto& [from, to] : chart.bands) json["bands"].push_back(Json::array({from, to}));
  for (const Series& series : chart.series) {
    Json one = {{"label", series.label},
                {"color", series.color},
                {"stack", series.stack},
                {"markers", series.markers},
                {"dashed", series.dashed}};
    if (!series.points.empty()) {
      one["points"] = Json::array();
      for (const auto& [x, y] : series.points) one["points"].push_back(Json::array({x, y}));
    } else {
      one["values"] = List(series.values);
      if (!series.low.empty()) {
        one["low"] = List(series.low);
        one["high"] = List(series.high);
      }
    }
    json["series"].push_back(std::move(one));
  }
  return json;
}

std::string ToHtml(const Chart& chart) {
  std::string out = "<figure class=\"chart\" id=\"" + chart.id + "\"><figcaption><h4>" + Escape(chart.title) +
                    "</h4><p>" + Escape(chart.text) + "</p></figcaption>";
  out += "<div class=\"canvas\"><canvas id=\"" + chart.id + "-canvas\" role=\"img\" aria-label=\"" +
         Escape(chart.title) + ". The same figures are in the table below.\"></canvas></div>";
  out +=
      "<details><summary>Figures of this chart</summary><div class=\"scroll\" role=\"region\" tabindex=\"0\" "
      "aria-label=\"" +
      Escape(chart.title) + ", table\"><table>";
  const bool points = !chart.series.empty() && !chart.series.front().points.empty();
  out += points ? ByPoint(chart) : ByLabel(chart);
  return out + "</table></div></details></figure>\n";
}

}  // namespace poolmark::report
