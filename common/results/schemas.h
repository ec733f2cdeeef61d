// JSON Schemas of the JSON files, made from the same field lists as the codecs; docs/schemas holds them.
// Pure.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace poolmark::results {

// "job.schema.json" and its text, for every file.
std::vector<std::pair<std::string, std::string>> Schemas();

}  // namespace poolmark::results
