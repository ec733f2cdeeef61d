// Drawings that are no charts: the plan as machines, processes, tiers and links, and the timeline of the
// steps; SVG text with a title and a description for screen readers. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/results/directory.h"

namespace poolmark::report {

// One stack of plan.json (its text). Empty when the stack is not in it.
std::string DrawPlan(const std::string& plan_json, const std::string& stack);
// The same as a folded table.
std::string PlanTable(const std::string& plan_json, const std::string& stack);

struct Step {
  std::string row;          // "Cycle 2, cand"
  std::string label;        // "Verify"
  std::string kind;         // "", "launch", "verify", "measure", "down", "bad"
  double from = 0, to = 0;  // seconds from the first
};
// Steps with both times known, from job, preflight, cycles and repeats.
std::vector<Step> StepsOf(const results::Directory& directory);
std::string DrawTimeline(const std::vector<Step>& steps);

}  // namespace poolmark::report
