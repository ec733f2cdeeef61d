// Where the prompt tokens of a load came from, by its engines' own counters (`poolmark load --metrics`), as
// load.json keeps it under `prompt_token_sources`. Pure; reads hostile files. The attribution itself is
// common/stats/attribution.h.
#pragma once
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/measured.h"

namespace poolmark::load {

struct TokenSourceRow {
  std::string key;   // in the JSON: "gpu", "host", …
  std::string name;  // for people: "GPU cache", "host memory", …
  double tokens = 0;
};

struct TokenSourceTable {
  bool simulated = false;            // a simulated engine is among them
  std::vector<std::string> engines;  // "http://…/metrics (vllm, simulated)"
  Measured<double> prompt;           // tokens that the engines counted
  std::vector<TokenSourceRow> rows;  // of `prompt`; empty where it is not measured
  std::vector<std::string> notes;
};

// Parts of the JSON in their order, with their names; of "gpu" the name is the JSON's own `gpu_is`.
struct TokenSourceName {
  const char* key;
  const char* name;
};
const std::vector<TokenSourceName>& TokenSourceNames();

// What is not as this version writes it is not measured, with the reason.
TokenSourceTable ReadTokenSources(const Json& json);
// For a terminal.
std::string TokenSourcesText(const Json& json);

}  // namespace poolmark::load
