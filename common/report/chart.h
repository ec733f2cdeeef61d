// One picture of the report with its data: drawn by page.js with Chart.js, and as a table for screen readers
// and for whoever wants the numbers. Pure.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"

namespace poolmark::report {

// How much weight a value carries; drawn pale (preliminary) or hatched (invalid), and said in the table.
enum class Mark { kNone, kPreliminary, kInvalid };

struct Series {
  std::string label;
  std::vector<std::optional<double>> values;     // by label of the axis
  std::vector<std::optional<double>> low, high;  // interval, where there is one
  std::vector<Mark> marks;                       // of the values or points; empty: none
  std::vector<bool> own_delay;  // of the values or points: `*`, includes the load generator's own delay
  std::vector<std::pair<double, double>> points;  // instead of values: x and y
  std::vector<std::string> notes;                 // of the points: "6 users"
  std::string color;                              // "s0" … "s7", or a source: "gpu", "host", …
  std::string stack;                              // bars of one stack lie on each other
  std::string group;     // series of one group share a line of the legend; "": a group of its own
  bool markers = false;  // single points, no line
  bool dashed = false;
  bool stepped = false;  // a point's value holds until the next
};

struct Chart {
  std::string id;  // of the element: letters, digits, dashes
  std::string title;
  std::string text;  // what it shows, a sentence
  enum class Kind { kBar, kLine } kind = Kind::kBar;
  bool horizontal = false;  // bars lie; for long labels
  bool stacked = false;
  std::string x_title, y_title;  // of labels or x, and of values; whichever way the bars lie
  std::string x_unit, y_unit;    // as FormatValue takes them
  bool x_log = false;
  std::vector<std::string> labels;
  std::vector<Series> series;
  struct Band {
    double from = 0, to = 0;
    std::string label;  // "warm-up"
  };
  std::vector<Band> bands;  // shaded stretches of x

  // One figure may offer several charts to choose from ("Load level": "2 users", "6 users"): those beside
  // this one, which is the first. Only `name` and the data of the others count.
  std::string choice;
  std::string name;
  std::vector<Chart> others;
};

// Charts of one figure put together; empty ones are left out. Nothing is left: a chart without series.
Chart Choose(const std::string& choice, std::vector<Chart> charts);
bool HasData(const Chart& chart);
// A chart of lines without any yet.
Chart LineChart(std::string x_title, std::string x_unit, std::string y_title, std::string y_unit);

Json ToJson(const Chart& chart);
// <figure> with canvas, caption, choice and the tables folded below it.
std::string ToHtml(const Chart& chart);

}  // namespace poolmark::report
