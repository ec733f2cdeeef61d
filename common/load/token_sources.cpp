#include "common/load/token_sources.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/printable.h"

namespace poolmark::load {
namespace {

std::string TextOf(const Json& json, const char* key, const char* otherwise) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : otherwise;
}

}  // namespace

const std::vector<TokenSourceName>& TokenSourceNames() {
  static const std::vector<TokenSourceName> names = {
      {"gpu", "GPU cache"},    {"host", "host memory"},  {"storage", "storage"},
      {"remote", "remote KV"}, {"computed", "computed"}, {"not_attributed", "not attributed"}};
  return names;
}

TokenSourceTable ReadTokenSources(const Json& json) {
  TokenSourceTable table;
  const auto unreadable = [&table] {
    table.rows.clear();
    table.prompt = NotMeasured{"prompt_token_sources is not as this version writes it"};
    return table;
  };
  try {
    for (const Json& engine : json.at("engines")) {
      const bool simulated = engine.at("simulated").get<bool>();
      table.simulated = table.simulated || simulated;
      table.engines.push_back(engine.at("url").get<std::string>() + " (" +
                              engine.at("dialect").get<std::string>() + (simulated ? ", simulated)" : ")"));
    }
    for (const Json& note : json.at("notes")) table.notes.push_back(note.get<std::string>());
    const Json& total = json.at("total");
    if (!total.contains("prompt")) {
      table.prompt = NotMeasured{TextOf(total, "not_measured", "no reason was given")};
      return table;
    }
    table.prompt = total.at("prompt").get<double>();
    for (const auto& [key, name] : TokenSourceNames()) {
      const std::string shown = std::string_view(key) == "gpu" ? TextOf(json, "gpu_is", name) : name;
      table.rows.push_back({key, shown, total.at(key).get<double>()});
    }
  } catch (const Json::exception&) {
    return unreadable();
  }
  return table;
}

std::string TokenSourcesText(const Json& json) {
  const TokenSourceTable table = ReadTokenSources(json);
  std::string out = "\nprompt tokens by source, by the engines' own counters";
  out += table.simulated ? " (simulated engine)\n" : "\n";
  if (!table.prompt.has_value()) {
    out += "  not measured: " + Printable(table.prompt.reason()) + "\n";
  } else {
    char numbers[80];
    for (const TokenSourceRow& row : table.rows) {
      std::snprintf(numbers, sizeof numbers, " %12.0f  %6.2f %%\n", row.tokens,
                    *table.prompt > 0 ? row.tokens / *table.prompt * 100 : 0.0);
      std::string name = Printable(row.name);
      name.resize(std::max<size_t>(name.size(), 19), ' ');
      out += "  " + name + numbers;
    }
    std::snprintf(numbers, sizeof numbers, "  %-19s %12.0f\n", "prompt tokens", *table.prompt);
    out += numbers;
  }
  for (const std::string& note : table.notes) out += "  note: " + Printable(note) + "\n";
  return out;
}

}  // namespace poolmark::load
