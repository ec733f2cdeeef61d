#include "common/load/plan.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/digest.h"
#include "common/base/time_format.h"
#include "common/load/describe.h"

namespace poolmark::load {
namespace {

constexpr double kMostRate = 1e7;  // requests a second, as on the command line

// Takes known keys of an object, collects errors, refuses what is left.
class KeyReader {
 public:
  KeyReader(const Json& json, std::string where, Errors* errors)
      : json_(json), where_(std::move(where)), errors_(*errors) {
    if (!json.is_object()) Bad("", "it is no object");
  }

  // A null is an error: it would mean the default, which is not what whoever wrote the key had in mind.
  const Json* Find(const char* key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
    if (!Has(key)) return nullptr;
    const Json& value = *json_.find(key);
    if (value.is_null()) Bad(key, "it is null", "give a value or leave it out");
    return value.is_null() ? nullptr : &value;
  }
  bool Has(const char* key) const { return json_.is_object() && json_.contains(key); }
  // A setting that would do nothing is refused.
  void Only(const char* key, bool with, const std::string& to_what) {
    if (Has(key) && !with) Bad(key, "it belongs to " + to_what, "leave it out");
  }
  void Text(const char* key, std::string* out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return Bad(key, "it is no string");
    *out = value->get<std::string>();
  }
  void Bool(const char* key, bool* out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Bad(key, "it is neither true nor false");
    *out = value->get<bool>();
  }
  template <class Integer>
  void Count(const char* key, Integer* out, uint64_t most = 1'000'000'000'000ull) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    const bool whole =
        value->is_number_unsigned() || (value->is_number_integer() && value->get<int64_t>() >= 0);
    if (!whole || value->get<uint64_t>() > most)
      return Bad(key, "it is no whole number from 0 to " + std::to_string(most));
    *out = static_cast<Integer>(value->get<uint64_t>());
  }
  void Number(const char* key, double* out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_number()) return Bad(key, "it is no number");
    *out = value->get<double>();
  }
  // "20m" or seconds.
  bool Duration(const char* key, Nanoseconds* out) {
    const Json* value = Find(key);
    if (value == nullptr) return false;
    if (value->is_number() && value->get<double>() >= 0 && value->get<double>() < 1e9) {
      *out = Nanoseconds(std::llround(value->get<double>() * 1e9));
      return true;
    }
    if (!value->is_string()) return Bad(key, "it is no duration"), false;
    const auto duration = ParseDuration(value->get<std::string>());
    if (!duration.ok()) return Bad(key, std::string(duration.status().message())), false;
    *out = *duration;
    return true;
  }
  void Bad(const std::string& key, std::string message, std::string hint = "") {
    errors_.push_back({absl::StatusCode::kInvalidArgument, "bad_plan",
                       key.empty() ? where_ : where_ + "." + key, std::move(message), std::move(hint)});
  }
  void RefuseOthers() {
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      std::string all;
      for (const std::string& known : known_) all += (all.empty() ? "" : ", ") + known;
      Bad(key, "this key is not known", "known are " + all);
    }
  }
  const std::string& where() const { return where_; }

 private:
  const Json& json_;
  std::string where_;
  Errors& errors_;
  std::vector<std::string> known_;
};

void ReadStrings(KeyReader* keys, const char* key, std::vector<std::string>* out) {
  const Json* list = keys->Find(key);
  if (list == nullptr) return;
  if (!list->is_array()) return keys->Bad(key, "it is no list");
  for (const Json& item : *list) {
    if (!item.is_string()) return keys->Bad(key, "it holds something else than strings");
    out->push_back(item.get<std::string>());
  }
}

void ReadRate(const Json& value, KeyReader* keys, LoadOptions* o) {
  if (value.is_number()) {
    const double rate = value.get<double>();
    if (!(rate > 0 && rate <= kMostRate)) return keys->Bad("rate", "it is not above 0 and at most 1e7");
    o->arrivals.steps = {{Nanoseconds(0), rate, rate}};
  } else if (value.is_string()) {
    auto steps = ParseRate(value.get<std::string>());
    if (!steps.ok()) return keys->Bad("rate", std::string(steps.status().message()));
    o->arrivals.steps = *std::move(steps);
  } else {
    keys->Bad("rate", "it is neither a number above 0 nor a text such as 10-100:60s");
  }
}

void ReadLevel(const Json& json, const std::string& where, Errors* errors, LoadOptions* o) {
  KeyReader keys(json, where, errors);
  const bool closed = keys.Has("concurrency"), rate = keys.Has("rate"), trace = keys.Has("speedup");
  if (closed + rate + trace != 1) keys.Bad("", "it has not exactly one of concurrency, rate and speedup");
  keys.Count("concurrency", &o->users, 100'000);
  keys.Duration("ramp_up", &o->ramp_up);
  keys.Only("ramp_up", closed, "a concurrency: a ramp of a rate is written 1-10:60s");
  if (rate) o->mode = LoadOptions::Mode::kRate;
  if (const Json* value = keys.Find("rate")) ReadRate(*value, &keys, o);
  std::string kind = "constant";
  keys.Text("arrivals", &kind);
  if (const auto parsed = ParseArrivalKind(kind); parsed.ok()) {
    o->arrivals.kind = *parsed;
  } else {
    keys.Bad("arrivals", std::string(parsed.status().message()));
  }
  keys.Number("cv", &o->arrivals.cv);
  keys.Count("seed", &o->arrivals.seed, UINT64_MAX);
  std::string of = "requests";
  keys.Text("of", &of);
  if (of != "requests" && of != "sessions") keys.Bad("of", "'" + of + "' is neither requests nor sessions");
  o->rate_of_sessions = of == "sessions";
  for (const char* key : {"arrivals", "of"}) keys.Only(key, rate, "a rate");
  keys.Only("seed", rate && o->arrivals.kind != ArrivalOptions::Kind::kConstant,
            "a rate with Poisson or gamma arrivals: equal gaps are not drawn");
  keys.Only("cv", rate && o->arrivals.kind == ArrivalOptions::Kind::kGamma, "a rate with gamma arrivals");
  if (trace) o->mode = LoadOptions::Mode::kTrace;
  keys.Number("speedup", &o->speedup);
  keys.RefuseOthers();
}

// The workload for this load: an agentic one with a `start` needs the users of the load's own level,
// whichever levels its job has.
Json WorkloadOf(const Json& workload, const LoadOptions& o, KeyReader* keys) {
  Json own = workload;
  const auto shape = own.find("shape");
  if (shape == own.end() || *shape != "agentic") return own;
  own.erase("concurrency");
  if (o.mode == LoadOptions::Mode::kClosed) {
    own["concurrency"] = o.users;
  } else if (own.contains("start")) {
    keys->Bad("workload.start", "the first session of each user begins there, and this load has no users",
              "load it with a concurrency, or leave start out");
  }
  return own;
}

void ReadRetry(const Json& json, const std::string& where, Errors* errors, RetryPolicy* retry) {
  KeyReader keys(json, where, errors);
  keys.Count("attempts", &retry->attempts, 100);
  keys.Duration("pause", &retry->pause);
  std::vector<std::string> words;
  ReadStrings(&keys, "on", &words);
  for (const std::string& word : words) {
    bool* const flag = word == "connect" ? &retry->on_connect
                       : word == "stale" ? &retry->on_stale
                       : word == "429"   ? &retry->on_429
                       : word == "5xx"   ? &retry->on_5xx
                                         : nullptr;
    if (flag == nullptr) {
      keys.Bad("on", "'" + word + "' is not known", "use connect, stale, 429, 5xx");
    } else {
      *flag = true;
    }
  }
  const bool again = retry->attempts > 1;
  if (again && words.empty())
    keys.Bad("on", "it names nothing, so that nothing would be tried again", "use connect, stale, 429, 5xx");
  if (!words.empty()) keys.Only("on", again, "attempts above 1");
  keys.Only("pause", again, "attempts above 1");
  keys.RefuseOthers();
}

void ReadSlo(const Json& json, const std::string& where, Errors* errors, std::optional<Slo>* slo) {
  KeyReader keys(json, where, errors);
  Slo read;
  std::string text;
  const auto limit = [&](const char* key, std::optional<Nanoseconds>* out) {
    Nanoseconds value{0};
    if (!keys.Duration(key, &value)) return;
    if (value <= Nanoseconds(0)) keys.Bad(key, "it is not above 0", "no request could meet it");
    *out = value;
    text += (text.empty() ? "" : ",") + std::string(key) + "=" + FormatDuration(value);
  };
  limit("ttft", &read.ttft);
  limit("tpot", &read.time_per_output_token);
  limit("latency", &read.latency);
  if (text.empty() && json.is_object())
    keys.Bad("", "it sets no limit", "give ttft, tpot or latency, as in \"ttft\": \"2s\"");
  read.name = text;  // as the command line names limits that have no name of their own
  keys.Text("name", &read.name);
  if (keys.Has("name") && read.name.empty()) keys.Bad("name", "it is empty", "leave it out");
  if (keys.Find("share") != nullptr) {
    double share = 0;
    keys.Number("share", &share);
    if (!(share > 0 && share <= 1)) keys.Bad("share", "it is not above 0 and at most 1");
    read.share = share;
  }
  keys.RefuseOthers();
  *slo = read;
}

void ReadHeaders(const Json& json, KeyReader* keys, http::Headers* headers) {
  if (!json.is_object()) return keys->Bad("headers", "it is no object", "write {\"Name\": \"value\"}");
  for (const auto& [name, value] : json.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    if (!value.is_string()) keys->Bad("headers", "'" + name + "' is no string");
    const Status sound = CheckHeader(name, text);
    if (!sound.ok()) keys->Bad("headers", std::string(sound.message()));
    headers->emplace_back(name, text);
  }
}

}  // namespace

Result<Plan> ParsePlan(const Json& json, const std::string& where) {
  Plan plan;
  LoadOptions& o = plan.options;
  Errors errors;
  KeyReader keys(json, where, &errors);
  uint64_t version = 0;
  keys.Count("schema_version", &version);
  if (version != 1) keys.Bad("schema_version", "it is not 1", "write plans of version 1");
  ReadStrings(&keys, "urls", &plan.base_urls);
  if (plan.base_urls.empty()) keys.Bad("urls", "there is none");
  for (const std::string& url : plan.base_urls) {
    if (const auto parsed = http::ParseUrl(url); !parsed.ok())
      keys.Bad("urls", std::string(parsed.status().message()));
  }
  if (const Json* headers = keys.Find("headers")) ReadHeaders(*headers, &keys, &o.headers);
  keys.Text("api_key_file", &plan.api_key_file);
  keys.Text("ca_file", &o.tls.ca_file);
  keys.Text("server_name", &o.tls.server_name);
  bool insecure = false;
  keys.Bool("insecure", &insecure);
  o.tls.verify = !insecure;
  keys.Text("tokenize_url", &plan.tokenize_url);
  std::vector<std::string> asked = plan.base_urls;
  asked.push_back(plan.tokenize_url);
  for (const char* key : {"ca_file", "server_name"}) keys.Only(key, AnyHttps(asked), "an https URL");
  if (insecure) keys.Only("insecure", AnyHttps(asked), "an https URL");
  const Json* const workload = keys.Find("workload");
  if (workload == nullptr || !workload->is_object() || workload->empty()) {
    keys.Bad("workload", "it is no object that says something");
  }
  if (const Json* level = keys.Find("load")) {
    ReadLevel(*level, where + ".load", &errors, &o);
  } else {
    keys.Bad("load", "it is missing", "write {\"concurrency\": 16}, {\"rate\": 5} or {\"speedup\": 1}");
  }
  if (workload != nullptr && workload->is_object()) {
    POOLMARK_ASSIGN_OR_RETURN(plan.workload_json, DumpJson(WorkloadOf(*workload, o, &keys)));
  }
  keys.Number("think_scale", &o.think_scale);
  if (Nanoseconds cap{0}; keys.Duration("think_cap", &cap)) o.think_cap = cap;
  keys.Duration("warm_up", &o.warm_up);
  keys.Count("warm_up_requests", &o.warm_up_requests);
  keys.Count("warm_up_sessions", &o.warm_up_sessions);
  if (Nanoseconds duration{0}; keys.Duration("duration", &duration)) o.duration = duration;
  keys.Count("max_requests", &o.max_requests);
  keys.Duration("drain", &o.drain);
  keys.Duration("deadline", &o.deadline);
  keys.Duration("stall", &o.stall);
  keys.Duration("connect_timeout", &o.connect_timeout);
  keys.Duration("keep_alive", &o.keep_alive);
  keys.Count("max_connections", &o.max_connections, 1'000'000);
  if (const Json* retry = keys.Find("retry")) ReadRetry(*retry, where + ".retry", &errors, &o.retry);
  keys.Count("loops", &o.loops, 256);
  keys.Count("processes", &plan.processes, 64);
  if (plan.processes < 1) keys.Bad("processes", "it is not from 1 to 64");
  keys.Count("worker", &o.worker, 10'000);
  keys.Count("workers", &o.workers, 10'000);
  if (uint64_t start = 0; keys.Find("start_at_wall_ns") != nullptr) {
    keys.Count("start_at_wall_ns", &start, INT64_MAX);
    plan.start_at_wall = Nanoseconds(static_cast<int64_t>(start));
  }
  keys.Text("request_id_prefix", &o.request_id_prefix);
  keys.Text("tokenizer", &plan.tokenizer);
  if (const Json* slo = keys.Find("slo")) ReadSlo(*slo, where + ".slo", &errors, &plan.slo);
  keys.Text("out", &plan.out);
  if (plan.out.empty()) keys.Bad("out", "it is missing", "name the directory for the results");
  keys.RefuseOthers();
  // What the options' own bounds say, once the URLs have been looked at above.
  LoadOptions checked = o;
  checked.urls.resize(1);
  for (Error& error : OptionErrors(checked)) {
    error.where = where;
    errors.push_back(std::move(error));
  }
  if (!errors.empty()) return ToStatus(errors);
  return plan;
}

Result<Json> PlanJson(const Plan& plan) {
  const LoadOptions& o = plan.options;
  Json json = {{"schema_version", 1}, {"urls", plan.base_urls}};
  if (!o.headers.empty()) {
    json["headers"] = Json::object();
    for (const auto& [name, value] : o.headers) json["headers"][name] = value;
  }
  if (!plan.api_key_file.empty()) json["api_key_file"] = plan.api_key_file;
  if (!o.tls.ca_file.empty()) json["ca_file"] = o.tls.ca_file;
  if (!o.tls.server_name.empty()) json["server_name"] = o.tls.server_name;
  if (!o.tls.verify) json["insecure"] = true;
  POOLMARK_ASSIGN_OR_RETURN(json["workload"], ParseJson(plan.workload_json, "workload"));
  json.update(SettingsJson(o, plan.processes));
  if (plan.start_at_wall.has_value()) json["start_at_wall_ns"] = plan.start_at_wall->count();
  if (!plan.tokenize_url.empty()) json["tokenize_url"] = plan.tokenize_url;
  if (!plan.tokenizer.empty()) json["tokenizer"] = plan.tokenizer;
  if (plan.slo.has_value()) json["slo"] = SloJson(*plan.slo);
  json["out"] = plan.out;
  return json;
}

Result<std::string> PlanDigest(const Plan& plan) {
  POOLMARK_ASSIGN_OR_RETURN(Json json, PlanJson(plan));
  POOLMARK_ASSIGN_OR_RETURN(Json workload, ParseJson(plan.workload_json, "workload"));
  // A data set counts by its content: its path may differ.
  if (const auto file = workload.find("file"); file != workload.end() && file->is_string()) {
    POOLMARK_ASSIGN_OR_RETURN(*file, Sha256OfFile(file->get<std::string>()));
  }
  json["workload"] = workload;
  for (const char* key : {"out", "worker", "start_at_wall_ns", "loops", "processes", "api_key_file",
                          "ca_file", "headers", "tokenize_url", "tokenizer"}) {
    json.erase(key);
  }
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(json));
  return Sha256Hex(text);
}

}  // namespace poolmark::load
