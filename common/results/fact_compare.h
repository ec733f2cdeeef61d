// Two tellings of the same facts held against each other: those of repeat.json, and those that samples, plan,
// preflight and manifest give. Part of sample_check.h, without its reading. Pure.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "common/results/sample_check.h"
#include "common/results/sample_facts.h"

namespace poolmark::results {

struct SampledFacts {
  SampleFacts facts;
  std::set<std::string> machines;  // whose samples could be read
};

// Adds a line for each fact that differs. Without a plan only power and the line rate can be compared.
void CompareFacts(const RepeatFacts& facts, const Witnesses& witnesses, SampledFacts sampled,
                  std::vector<std::string>* problems);

}  // namespace poolmark::results
