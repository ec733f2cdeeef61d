// From pages of counters to what changed between two readings, in the form that attribution adds up
// (common/stats/attribution.h): series by name, summed over all labels; labels that split prompt tokens by
// source stand beside as "name{label=value}". Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/prom/parser.h"

namespace poolmark::prom {

using Totals = std::map<std::string, double>;
Totals TotalsOf(const Page& page);
// Counters that the page declares and of which no sample stands there: a labelled family before its first
// event. They are 0.
std::vector<std::string> DeclaredWithoutSample(const Page& page);
// The keys of one sample in Totals.
std::vector<std::string> KeysOf(const std::string& name, const Labels& labels);
// after - before. A key that is new counts from 0: engines make series at their first event.
Totals Difference(const Totals& before, const Totals& after);

// The engine dialect that a page speaks, by the names of its series; "": none that gives prompt tokens.
std::string DialectOf(const Page& page);

}  // namespace poolmark::prom
