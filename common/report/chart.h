// One picture of the report with its data: drawn by page.js with Chart.js, and as a table for screen readers
// and for whoever wants the numbers. Pure.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"

namespace poolmark::report {

struct Series {
  std::string label;
  std::vector<std::optional<double>> values;      // by label of the x axis
  std::vector<std::optional<double>> low, high;   // interval, where there is one
  std::vector<std::pair<double, double>> points;  // instead of values: x and y
  std::string color;                              // "s0" … "s7", or a source: "gpu", "host", …
  std::string stack;                              // bars of one stack lie on each other
  bool markers = false;                           // single points, no line
  bool dashed = false;
};

struct Chart {
  std::string id;  // of the element: letters, digits, dashes
  std::string title;
  std::string text;  // what it shows, a sentence
  enum class Kind { kBar, kLine } kind = Kind::kBar;
  bool stacked = false;
  std::string x_title, y_title;
  std::string x_unit, y_unit;  // as FormatValue takes them
  bool x_log = false;
  std::vector<std::string> labels;
  std::vector<Series> series;
  std::vector<std::pair<double, double>> bands;  // shaded stretches of x (warm-up, drain)
};

Json ToJson(const Chart& chart);
// <figure> with canvas, caption and the table folded below it.
std::string ToHtml(const Chart& chart);

}  // namespace poolmark::report
