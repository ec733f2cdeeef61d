#include "agent/sim/faults.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "common/base/time_format.h"

namespace poolmark::sim {
namespace {

const std::map<std::string, std::set<std::string>, std::less<>>& RequestKinds() {
  static const std::map<std::string, std::set<std::string>, std::less<>> kinds = {
      {"error-before", {"status"}},
      {"error-inside", {"after_tokens", "event"}},
      {"truncate", {"after_tokens"}},
      {"reset", {"after_tokens"}},
      {"stall", {"after_tokens", "for"}},
      {"drip", {"bytes", "interval"}},
      {"early-role", {}},
      {"no-usage", {}},
      {"no-done", {}},
      {"no-output", {}},
      {"garbage", {"what"}},
  };
  return kinds;
}

const std::map<std::string, std::set<std::string>, std::less<>>& EngineKinds() {
  static const std::map<std::string, std::set<std::string>, std::less<>> kinds = {
      {"crash", {"exit", "signal"}}, {"hang", {"health"}},
      {"ignore-sigterm", {}},        {"detach", {"count", "ignore_sigterm", "listen"}},
      {"counter-reset", {}},         {"kv-format", {"model", "dtype", "kv_dtype", "seed", "layers"}},
      {"store-error", {"rate"}},     {"corrupt-kv", {"rate"}},
      {"slow", {"factor"}},          {"log-flood", {"lines"}},
      {"metrics", {"what"}},
  };
  return kinds;
}

const std::set<std::string> kWords = {"what", "only", "health", "model", "dtype", "kv_dtype"};
const std::set<std::string> kDurations = {"for", "interval", "after"};

std::string Names() {
  std::string names;
  for (const std::string& name : FaultKinds()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

std::vector<std::string> FaultKinds() {
  std::vector<std::string> names;
  for (const auto* kinds : {&RequestKinds(), &EngineKinds()}) {
    for (const auto& [name, keys] : *kinds) names.push_back(name);
  }
  return names;
}

bool Fault::IsOfRequest() const {
  return RequestKinds().count(kind) != 0;
}

double Fault::Number(const std::string& key, double otherwise) const {
  auto found = values.find(key);
  return found == values.end() ? otherwise : std::atof(found->second.c_str());
}

std::string Fault::Text(const std::string& key, std::string_view otherwise) const {
  auto found = values.find(key);
  return found == values.end() ? std::string(otherwise) : found->second;
}

std::optional<Nanoseconds> Fault::Duration(const std::string& key) const {
  auto found = values.find(key);
  if (found == values.end()) return std::nullopt;
  return *ParseDuration(found->second);  // checked when the fault was read
}

std::string Fault::ToString() const {
  std::string text = kind;
  char separator = ':';
  for (const auto& [key, value] : values) {
    text += separator + key + "=" + value;
    separator = ',';
  }
  return text;
}

Result<Fault> ParseFault(std::string_view text) {
  Fault fault;
  size_t colon = text.find(':');
  fault.kind = std::string(text.substr(0, colon));
  auto request = RequestKinds().find(fault.kind);
  auto engine = EngineKinds().find(fault.kind);
  bool of_request = request != RequestKinds().end();
  if (!of_request && engine == EngineKinds().end()) {
    return InvalidInput("fault", "'" + fault.kind.substr(0, 60) + "' is no fault", "one of " + Names());
  }
  std::set<std::string> allowed = of_request ? request->second : engine->second;
  if (of_request) {
    allowed.insert({"rate", "count", "after_requests", "only"});
  } else {
    allowed.insert("after");
  }
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::string_view pair = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    size_t equals = pair.find('=');
    std::string key(pair.substr(0, equals));
    if (equals == std::string_view::npos || allowed.count(key) == 0) {
      std::string keys;
      for (const std::string& name : allowed) keys += (keys.empty() ? "" : ", ") + name;
      return InvalidInput("fault " + fault.kind,
                          "'" + std::string(pair.substr(0, 60)) + "' is no key=value of it", "keys: " + keys);
    }
    std::string value(pair.substr(equals + 1));
    if (kDurations.count(key) != 0) {
      POOLMARK_RETURN_IF_ERROR(ParseDuration(value).status());
    } else if (kWords.count(key) == 0) {
      char* end = nullptr;
      double number = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != '\0' || !std::isfinite(number) || number < 0) {
        return InvalidInput("fault " + fault.kind, key + " is '" + value.substr(0, 60) + "'",
                            "a number from 0 on");
      }
      if (key == "rate" && number > 1)
        return InvalidInput("fault " + fault.kind, "rate is " + value, "0 to 1");
    }
    fault.values[key] = std::move(value);
  }
  return fault;
}

void FaultBox::Add(Fault fault) {
  std::lock_guard lock(mutex_);
  entries_.push_back({std::move(fault)});
}

void FaultBox::Clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
}

std::vector<std::string> FaultBox::List() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> list;
  for (const Entry& entry : entries_) list.push_back(entry.fault.ToString());
  return list;
}

std::vector<Fault> FaultBox::ForRequest(bool one_token) {
  std::lock_guard lock(mutex_);
  std::vector<Fault> hits;
  for (Entry& entry : entries_) {
    if (!entry.fault.IsOfRequest()) continue;
    std::string only = entry.fault.Text("only", "");
    if ((only == "store" && !one_token) || (only == "measured" && one_token)) continue;
    uint64_t number = entry.seen++;
    if (static_cast<double>(number) < entry.fault.Number("after_requests", 0)) continue;
    if (static_cast<double>(entry.hit) >= entry.fault.Number("count", INFINITY)) continue;
    if (random_.Unit() >= entry.fault.Number("rate", 1)) continue;
    ++entry.hit;
    hits.push_back(entry.fault);
  }
  return hits;
}

std::optional<Fault> FaultBox::Find(std::string_view kind) const {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.fault.kind == kind) return entry.fault;
  }
  return std::nullopt;
}

bool FaultBox::Hits(std::string_view kind) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.fault.kind == kind && random_.Unit() < entry.fault.Number("rate", 1)) return true;
  }
  return false;
}

}  // namespace poolmark::sim
