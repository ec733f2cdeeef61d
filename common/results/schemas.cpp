#include "common/results/schemas.h"

#include <nlohmann/json.hpp>

#include "common/results/schema_parts.h"

namespace poolmark::results {

std::vector<std::pair<std::string, std::string>> Schemas() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, schema] : {std::pair{"job", JobSchema()},
                                     {"manifest", ManifestSchema()},
                                     {"plan", PlanSchema()},
                                     {"inputs", InputsSchema()},
                                     {"preflight", PreflightSchema()},
                                     {"verify", VerifySchema()},
                                     {"teardown", TeardownSchema()},
                                     {"repeat", RepeatSchema()},
                                     {"summary", SummarySchema()},
                                     {"load", LoadSchema()},
                                     {"event", EventSchema()},
                                     {"sample", SampleSchema()},
                                     {"request", RequestSchema()},
                                     {"timeline", TimelineSchema()}}) {
    out.emplace_back(std::string(name) + ".schema.json", schema.dump(1) + "\n");
  }
  return out;
}

}  // namespace poolmark::results
