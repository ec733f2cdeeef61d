// From pages of counters to what changed between two readings, in the form that attribution adds up
// (common/stats/attribution.h): series by name, summed over all labels; parts that the catalogue keeps apart
// stand beside as "name{label=value}". Used alike for pages and for the samples of a repeat. Pure.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/prom/catalogue.h"
#include "common/prom/parser.h"

namespace poolmark::prom {

using Totals = std::map<std::string, double>;

// How the copies of a series add up (docs/catalogue.md): parts that `split` tells apart stay apart; what is
// left are copies to be summed or, with `max`, the same amount several times.
struct Adding {
  std::vector<std::string> split;
  bool max = false;
};
// Where no catalogue tells: labels that are known to split prompt tokens and KV bytes stand apart, copies are
// summed.
Adding AddingOf(const Labels& labels);
inline Adding AddingOf(const Series& series) {
  return {series.split, series.max};
}

class Adder {
 public:
  void Add(const std::string& name, const Labels& labels, const Adding& how, double value);
  // Each name with its sum; where labels split it, each value of each of these, and all of them together
  // ("name{a=1}", "name{b=2}", "name{a=1,b=2}").
  Totals Take() const;

 private:
  struct Part {
    std::string name;
    Labels split;
    double value = 0;
  };
  std::map<std::string, Part> parts_;
};

// The page's counters. `dialect` says how its series add up and in which unit they are; of other series, and
// without one, copies are summed.
Totals TotalsOf(const Page& page, const Dialect* dialect = nullptr);
// Counters that the page declares and of which no sample stands there: a labelled family before its first
// event. They are 0.
std::vector<std::string> DeclaredWithoutSample(const Page& page);
// A part of the prompt that this version has and of which there is no child, while the dialect's witness is
// there, is 0. In an unknown version nothing is claimed.
void AddAbsent(const Dialect& dialect, std::string_view version, Totals* totals);
// after - before. A key that is new counts from 0: engines make series at their first event.
Totals Difference(const Totals& before, const Totals& after);

// The engine dialect that a page speaks, by the names of its series; "": none that gives prompt tokens.
std::string DialectOf(const Page& page);

}  // namespace poolmark::prom
