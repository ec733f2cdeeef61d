// Every fact of repeat.json that a published figure hangs on has a second witness in the directory: a repeat
// in which one of them is another, with figures, summary and sums made to fit, is found by name.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "common/report/text.h"
#include "tests/unit/report/edited.h"

using namespace poolmark;
using poolmark::test::Edited;

namespace {

struct FactCase {
  std::string what;
  std::function<bool(Json&)> change;  // of repeat.json's facts; false: there is no such fact here
  std::string named;                  // by the report
};

// Scales a number, gives one that was not measured a value.
bool Forge(Json& value, double factor) {
  value = value.is_number() ? Json(value.get<double>() * factor + (value == 0 ? 1 : 0)) : Json(factor);
  return true;
}
bool Flip(Json& value) {
  value = !value.get<bool>();
  return true;
}
std::function<bool(Json&)> First(const char* list, const std::function<bool(Json&)>& change) {
  return [list = std::string(list), change](Json& facts) {
    return !facts[list].empty() && change(facts[list][0]);
  };
}
Json& PathsOf(Json& facts) {
  return facts["evidence"]["paths"];
}

std::vector<FactCase> Cases() {
  const auto capacity = [](double factor) {
    return First("caches", [=](Json& one) { return Forge(one["capacity_tokens"], factor); });
  };
  return {
      {"a larger cache", capacity(100), "capacity_tokens is "},
      {"a cache of another size by a hair", capacity(1.001), "capacity_tokens is "},
      {"a cache that is used less", First("caches", [](Json& one) { return Forge(one["usage_mean"], 0.5); }),
       "usage_mean is "},
      {"a lower peak", First("caches", [](Json& one) { return Forge(one["usage_peak"], 0.5); }),
       "usage_peak is "},
      {"another series of the use",
       First("caches",
             [](Json& one) {
               one["series"] = "confirmed_usage";
               return true;
             }),
       "series is 'confirmed_usage' by the facts"},
      {"another series of the size",
       First("caches",
             [](Json& one) {
               one["capacity_series"] = "confirmed_size";
               return true;
             }),
       "capacity_series is 'confirmed_size' by the facts"},
      {"a cache twice",
       [](Json& facts) {
         if (facts["caches"].empty()) return false;
         facts["caches"].push_back(facts["caches"][0]);
         return true;
       },
       "facts.caches counts "},
      {"a cache less",
       [](Json& facts) {
         if (facts["caches"].empty()) return false;
         facts["caches"].erase(0);
         return true;
       },
       "facts.caches says nothing of "},
      {"power that nobody read",
       [](Json& facts) {
         const Json from = facts["measured_from"], to = facts["measured_to"];
         facts["power"] = Json::array();
         for (const Json& silence : facts["evidence"]["silences"])
           facts["power"].push_back(
               {{"machine", silence["machine"]},
                {"kind", "bmc"},
                {"series", "watts"},
                {"watts", Json::array({Json::array({from, 1.0}), Json::array({to, 1.0})})}});
         return true;
       },
       "(bmc, watts): 2 readings of 1 W on average by the facts, nothing by the samples"},
      {"half the power",
       First("power",
             [](Json& one) {
               if (one["watts"].empty()) return false;
               for (Json& reading : one["watts"]) reading[1] = reading[1].get<double>() / 2;
               return true;
             }),
       "power of "},
      {"a machine whose power is left out",
       [](Json& facts) {
         if (facts["power"].empty()) return false;
         facts["power"].erase(0);
         return true;
       },
       "nothing by the facts"},
      {"more KV than moved",
       [](Json& facts) {
         if (facts["transfers"].empty() || !facts["transfers"][0]["bytes"].is_number()) return false;
         Forge(facts["transfers"][0]["bytes"], 1000);
         for (Json& path : PathsOf(facts)) {
           if (path["from"] == facts["transfers"][0]["from"] && path["to"] == facts["transfers"][0]["to"])
             path["expected_bytes"] = path["tcp_bytes"] = facts["transfers"][0]["bytes"];
         }
         return true;
       },
       "bytes from "},
      {"another name for it",
       First("transfers",
             [](Json& one) {
               one["series"] = "confirmed_bytes";
               return true;
             }),
       "the series of the bytes from "},
      {"a faster line", First("transfers", [](Json& one) { return Forge(one["line_bits_per_second"], 50); }),
       "the line rate of "},
      {"a pair that moves nothing",
       [](Json& facts) {
         if (facts["transfers"].empty()) return false;
         facts["transfers"].push_back(facts["transfers"][0]);
         facts["transfers"].back()["from"] = "elsewhere";
         return true;
       },
       "between which plan.json moves no KV"},
      {"a pair twice",
       [](Json& facts) {
         if (facts["transfers"].empty()) return false;
         facts["transfers"].push_back(facts["transfers"][0]);
         return true;
       },
       "more than once"},
      {"bytes that no card sent over TCP",
       [](Json& facts) { return !PathsOf(facts).empty() && Forge(PathsOf(facts)[0]["tcp_bytes"], 7); },
       "evidence.paths: tcp_bytes of "},
      {"bytes that no card sent over RDMA",
       [](Json& facts) { return !PathsOf(facts).empty() && Forge(PathsOf(facts)[0]["rdma_bytes"], 1e12); },
       "evidence.paths: rdma_bytes of "},
      {"a path that is said to be simulated",
       [](Json& facts) { return !PathsOf(facts).empty() && Flip(PathsOf(facts)[0]["simulated"]); },
       "is simulated is "},
      {"an easier limit to first token",
       First("slos", [](Json& one) { return Forge(one["ttft_seconds"], 100); }), "facts.slos: "},
      {"an easier limit of each token",
       First("slos", [](Json& one) { return Forge(one["tpot_seconds"], 100); }), "facts.slos: "},
      {"a smaller share to reach",
       First("slos",
             [](Json& one) {
               one["share"] = 0.01;
               return true;
             }),
       "share 0.01"},
      {"an engine that is said to decode only",
       First("engines",
             [](Json& one) {
               one["role"] = one["role"] == "decode" ? "prefill" : "decode";
               return true;
             }),
       "role is "},
      {"a GPU that is not there", First("engines", [](Json& one) { return Flip(one["has_gpu"]); }),
       "has_gpu is "},
      {"tiers that are not there",
       First("engines",
             [](Json& one) {
               one["external_tiers"] = {"host", "storage", "remote"};
               return true;
             }),
       "external_tiers is "},
      {"another second level",
       First("engines",
             [](Json& one) {
               one["second_level"] = one["second_level"] == "storage" ? "host" : "storage";
               return true;
             }),
       "second_level is "},
      {"another dialect",
       First("engines",
             [](Json& one) {
               one["dialect"] = "trtllm";
               return true;
             }),
       "dialect is "},
      {"another machine",
       First("engines",
             [](Json& one) {
               one["machine"] = "elsewhere";
               return true;
             }),
       "machine is "},
      {"an engine twice",
       [](Json& facts) {
         facts["engines"].push_back(facts["engines"][0]);
         return true;
       },
       "facts.engines counts "},
      {"an engine that could not be read",
       First("engines",
             [](Json& one) {
               if (one["unreadable"] != "") return false;
               one["unreadable"] = "its page failed";
               return true;
             }),
       "could be read by the samples, not by the facts"},
      {"a counter that went backwards", First("engines", [](Json& one) { return Flip(one["reset"]); }),
       "whether a counter went backwards is "},
      {"counters of another moment",
       First("engines", [](Json& one) { return Forge(one["counters_from"], 0.5); }), "counters_from is "},
      {"hits of a cache server",
       First("engines",
             [](Json& one) {
               one["cache"]["lmcache_mp_lookup_hit_l1_tokens_total"] = 5000.0;
               return true;
             }),
       "lmcache_mp_lookup_hit_l1_tokens_total rose by 5000 by the facts, by nothing by the samples"},
      {"prompt tokens",
       First("engines",
             [](Json& one) {
               for (auto& [key, value] : one["deltas"].items()) {
                 if (value > 0) return Forge(value, 2);
               }
               return false;
             }),
       " by the facts, by "},
      {"sessions that did not run out", [](Json& facts) { return Flip(facts["ran_out_of_sessions"]); },
       "facts.ran_out_of_sessions"},
      {"a client that was fast enough", [](Json& facts) { return Flip(facts["client_limited"]); },
       "facts.client_limited"},
      {"a switch that nobody read",
       [](Json& facts) {
         facts["switch_power"] = Json::array({Json{
             {"name", "leaf1"}, {"input_watts", Json::array({1.0})}, {"ports_used", 1}, {"ports_up", 2}}});
         return true;
       },
       "facts.switch_power holds readings of switches"},
  };
}

// The first repeat of the directory with a pair of machines between which KV moved, or else its first.
std::string RepeatOf(const std::string& path) {
  const auto directory = results::ReadDirectory(path);
  REQUIRE(directory.ok());
  REQUIRE_FALSE(directory->repeats.empty());
  for (const auto& repeat : directory->repeats) {
    if (!repeat.facts.transfers.empty() && repeat.facts.transfers[0].bytes.has_value())
      return results::DirectoryOf(repeat);
  }
  return results::DirectoryOf(directory->repeats.front());
}

// How many of the cases there were facts for.
int CheckAll(const std::function<std::unique_ptr<Edited>()>& copy) {
  int found = 0;
  for (const FactCase& one : Cases()) {
    const auto dir = copy();
    const std::string repeat = RepeatOf(dir->path());
    bool there = false;
    dir->Edit(repeat + "/repeat.json", [&](Json& json) { there = one.change(json["facts"]); });
    if (!there) continue;
    ++found;
    dir->Fit(repeat);
    const std::string text = report::ReportText(dir->Judged());
    INFO(one.what);
    CHECK_THAT(text, Catch::Contains(one.named));
    CHECK_THAT(text, !Catch::Contains("Every stored figure"));
  }
  return found;
}

}  // namespace

TEST_CASE("a fact that nothing else in the directory bears out is found, with all figures made to fit",
          "[I8][C28]") {
  CHECK(CheckAll([] { return std::make_unique<Edited>(); }) == static_cast<int>(Cases().size()));
}

// Of a directory that real programs wrote: POOLMARK_RESULTS_DIR names it; how many facts it had is printed.
TEST_CASE("a fact of a real directory that nothing else bears out is found", "[.real-facts]") {
  const char* original = std::getenv("POOLMARK_RESULTS_DIR");
  REQUIRE(original != nullptr);
  {
    Edited whole{std::string(original)};
    whole.Fit(RepeatOf(whole.path()));
    CHECK_THAT(report::ReportText(whole.Judged()), Catch::Contains("Every stored figure"));
  }
  const int found = CheckAll([&] { return std::make_unique<Edited>(std::string(original)); });
  std::cout << found << " of " << Cases().size() << " facts were there, were changed and found\n";
  CHECK(found > 0);
}

TEST_CASE("limits of goodput must be those of the other repeats where job.json does not hold them", "[I8]") {
  Edited dir;
  dir.Edit("job.json", [](Json& job) { job.erase("slo_limits"); });
  CHECK_THAT(report::ReportText(dir.Judged()),
             Catch::Contains("except what was not computed again: the limits of goodput") &&
                 !Catch::Contains("differs:") && !Catch::Contains("file:"));
  const std::string last = "points/cand/code-c4/repeat_3";
  dir.Edit(last + "/repeat.json", [](Json& repeat) { repeat["facts"]["slos"][0]["ttft_seconds"] = 45.0; });
  dir.Fit(last);
  CHECK_THAT(report::ReportText(dir.Judged()),
             Catch::Contains("facts.slos: mlperf-llama2-70b is ttft 45 s, tpot 0.2 s; the job has ttft 2 s"));
}

TEST_CASE("a directory that an earlier version wrote is not damaged: what it does not say is told",
          "[I8][C28]") {
  Edited dir;
  for (const auto& repeat : test::ExampleRepeats()) {
    dir.Edit(results::DirectoryOf(repeat) + "/repeat.json",
             [](Json& json) { json["facts"]["caches"][0].erase("capacity_series"); });
  }
  const auto job = dir.Judged();
  CHECK(job.problems.empty());
  CHECK(job.summary.verdict == "VALID");
  CHECK_THAT(report::FollowsText(job), Catch::Contains("the series that told the caches' size"));
}
