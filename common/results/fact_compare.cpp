#include "common/results/fact_compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/results/path_calibration.h"
#include "common/results/transfers.h"

namespace poolmark::results {
namespace {

constexpr size_t kMaxLines = 10;  // of a kind

bool Same(double left, double right) {
  return left == right || std::abs(left - right) <= 1e-9 * std::max(std::abs(left), std::abs(right));
}
bool Same(const Measured<double>& left, const Measured<double>& right) {
  if (left.has_value() != right.has_value()) return false;
  return !left.has_value() || Same(*left, *right);
}

std::string Shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}
std::string Shown(const Measured<double>& value) {
  return value.has_value() ? Shown(*value) : "not measured";
}
std::string Shown(const std::string& text) {
  return "'" + text + "'";
}
std::string Shown(bool value) {
  return value ? "true" : "false";
}
std::string Shown(const std::optional<double>& value) {
  return value ? Shown(*value) : "not known";
}

// Those of a machine under one name, in their order.
std::vector<const PowerSeries*> LikeSeries(const std::vector<PowerSeries>& all, const PowerSeries& like) {
  std::vector<const PowerSeries*> out;
  for (const PowerSeries& one : all) {
    if (one.machine == like.machine && one.kind == like.kind && one.series == like.series)
      out.push_back(&one);
  }
  return out;
}

bool SameWatts(const PowerSeries& left, const PowerSeries& right) {
  return std::equal(
      left.watts.begin(), left.watts.end(), right.watts.begin(), right.watts.end(),
      [](const auto& a, const auto& b) { return Same(a.first, b.first) && Same(a.second, b.second); });
}

std::string Readings(const std::vector<const PowerSeries*>& series) {
  if (series.empty()) return "nothing";
  double sum = 0;
  size_t count = 0;
  for (const PowerSeries* one : series) {
    count += one->watts.size();
    for (const auto& [time, watts] : one->watts) sum += watts;
  }
  return std::to_string(count) + " readings" +
         (count > 0 ? " of " + Shown(sum / static_cast<double>(count)) + " W on average" : "");
}

class Comparer {
 public:
  Comparer(const RepeatFacts& facts, const Witnesses& witnesses, SampledFacts sampled,
           std::vector<std::string>* problems)
      : facts_(facts), with_(witnesses), sampled_(std::move(sampled)), problems_(*problems) {}

  void Run() {
    Section([&] { Engines(); });
    Section([&] { Caches(); });
    Section([&] { Power(); });
    if (with_.stack != nullptr) {
      Section([&] { Transfers(); });
      Section([&] { Paths(); });
    }
    Section([&] { Others(); });
  }

 private:
  void Section(const std::function<void()>& fill) {
    lines_.clear();
    fill();
    for (size_t i = 0; i < std::min(lines_.size(), kMaxLines); ++i) problems_.push_back(lines_[i]);
    if (lines_.size() > kMaxLines)
      problems_.push_back(std::to_string(lines_.size() - kMaxLines) + " more like these");
  }
  template <class T>
  void Held(const std::string& what, const T& stored, const T& witnessed, const char* witness) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, Measured<double>>) {
      if (Same(stored, witnessed)) return;
    } else if constexpr (std::is_same_v<T, std::optional<double>>) {
      if (stored.has_value() == witnessed.has_value() && (!stored || Same(*stored, *witnessed))) return;
    } else if (stored == witnessed) {
      return;
    }
    lines_.push_back(what + " is " + Shown(stored) + " by the facts, " + Shown(witnessed) + " by " + witness);
  }
  bool Sampled(const std::string& machine) const { return sampled_.machines.contains(machine); }

  void Deltas(const std::string& whose, const stats::Deltas& stored, const stats::Deltas& sampled) {
    for (const auto& [key, value] : stored) {
      const auto found = sampled.find(key);
      if (found != sampled.end() && Same(found->second, value)) continue;
      lines_.push_back(whose + ": " + key + " rose by " + Shown(value) + " by the facts, by " +
                       (found == sampled.end() ? "nothing" : Shown(found->second)) + " by the samples");
    }
    for (const auto& [key, value] : sampled) {
      if (value == 0 || stored.contains(key)) continue;
      // The sum over a series' labels, where the facts have its parts.
      const auto part = stored.lower_bound(key + "{");
      if (part != stored.end() && part->first.starts_with(key + "{")) continue;
      lines_.push_back(whose + ": " + key + " rose by " + Shown(value) +
                       " by the samples, the facts do not have it");
    }
  }

  void Engines() {
    for (const stats::EngineFacts& engine : facts_.engines) {
      const auto& read = sampled_.facts.engines;
      const auto at = std::find_if(read.begin(), read.end(), [&](const auto& one) {
        return one.process == engine.process && one.machine == engine.machine;
      });
      if (at == read.end()) continue;  // of a machine whose samples are gone, or of none of the plan: told
      if (engine.unreadable.empty() != at->unreadable.empty()) {
        const std::string& why = engine.unreadable.empty() ? at->unreadable : engine.unreadable;
        lines_.push_back(engine.process + ": its counters " +
                         (engine.unreadable.empty() ? "could be read by the facts, not by the samples: "
                                                    : "could be read by the samples, not by the facts: ") +
                         why);
      }
      Held(engine.process + ": whether a counter went backwards", engine.reset, at->reset, "the samples");
      Held(engine.process + ": counters_from", engine.counters_from, at->counters_from, "the samples");
      if (engine.unreadable.empty()) {
        stats::Deltas sampled = at->deltas;
        // A part of the prompt that an engine's version has and of which no child was sampled is 0 by the
        // catalogue of the job: the samples do not contradict it, if other parts of it were counted.
        for (const auto& [key, value] : engine.deltas) {
          if (!engine.version.empty() && !sampled.empty() && value == 0 && key.find('{') != std::string::npos)
            sampled.try_emplace(key, 0);
        }
        Deltas(engine.process, engine.deltas, sampled);
      }
      if (with_.stack != nullptr) Deltas("cache server of " + engine.process, engine.cache, at->cache);
    }
  }

  void Caches() {
    for (const CacheFacts& sampled : sampled_.facts.caches) {
      size_t found = 0;
      for (const CacheFacts& stored : facts_.caches) {
        if (stored.process != sampled.process) continue;
        ++found;
        const auto held = [&](const char* what, const auto& left, const auto& right) {
          Held(stored.process + ": " + what, left, right, "the samples");
        };
        held("machine", stored.machine, sampled.machine);
        held("capacity_tokens", stored.capacity_tokens, sampled.capacity_tokens);
        held("usage_mean", stored.usage_mean, sampled.usage_mean);
        held("usage_peak", stored.usage_peak, sampled.usage_peak);
        held("series", stored.series, sampled.series);
        // Not written by earlier versions.
        if (stored.capacity_series)
          held("capacity_series", *stored.capacity_series, sampled.capacity_series.value_or(""));
      }
      if (found == 0) lines_.push_back("facts.caches says nothing of " + sampled.process);
      if (found > 1)
        lines_.push_back("facts.caches counts " + sampled.process + " " + std::to_string(found) + " times");
    }
    for (const CacheFacts& stored : facts_.caches) {
      const auto& all = sampled_.facts.caches;
      const bool there = std::any_of(all.begin(), all.end(),
                                     [&](const auto& sampled) { return sampled.process == stored.process; });
      if (!there && Sampled(stored.machine))
        lines_.push_back("facts.caches has " + stored.process + ", which is no engine on " + stored.machine);
    }
  }

  void Power() {
    const auto compare = [&](const PowerSeries& like) {
      const auto stored = LikeSeries(facts_.power, like), sampled = LikeSeries(sampled_.facts.power, like);
      const bool same = std::equal(stored.begin(), stored.end(), sampled.begin(), sampled.end(),
                                   [](const auto* a, const auto* b) { return SameWatts(*a, *b); });
      if (same || !Sampled(like.machine)) return;
      const std::string line = "power of " + like.machine + " (" + like.kind + ", " + like.series +
                               "): " + Readings(stored) + " by the facts, " + Readings(sampled) +
                               " by the samples";
      if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) lines_.push_back(line);
    };
    for (const PowerSeries& one : facts_.power) compare(one);
    for (const PowerSeries& one : sampled_.facts.power) compare(one);
  }

  // The engines' counters are compared by themselves; here the sum of them is.
  void Transfers() {
    SampleFacts samples = sampled_.facts;
    samples.engines = facts_.engines;
    const bool all_read =
        std::all_of(with_.stack->processes.begin(), with_.stack->processes.end(),
                    [&](const auto& process) { return !process.is_engine() || Sampled(process.machine); });
    const auto rates = with_.preflight != nullptr ? LineRatesOf(*with_.preflight)
                                                  : std::map<std::pair<std::string, std::string>, double>();
    const auto expected = TransfersOf(*with_.stack, samples, rates);
    for (const TransferFacts& stored : facts_.transfers) {
      const std::string pair = stored.from + " to " + stored.to;
      const auto is = [&](const auto& one) { return one.from == stored.from && one.to == stored.to; };
      const auto at = std::find_if(expected.begin(), expected.end(), is);
      if (at == expected.end()) {
        lines_.push_back("facts.transfers has " + pair + ", between which plan.json moves no KV");
        continue;
      }
      if (std::count_if(facts_.transfers.begin(), facts_.transfers.end(), is) > 1 &&
          &*std::find_if(facts_.transfers.begin(), facts_.transfers.end(), is) == &stored)
        lines_.push_back("facts.transfers counts " + pair + " more than once");
      Held("the path of " + pair, stored.path, at->path, "plan.json");
      if (with_.preflight != nullptr)
        Held("the line rate of " + pair, stored.line_bits_per_second, at->line_bits_per_second,
             "preflight.json");
      if (!all_read) continue;
      Held("bytes from " + pair, stored.bytes, at->bytes, "the engines' counters");
      Held("the series of the bytes from " + pair, stored.series, at->series, "the engines' counters");
    }
  }

  bool HasRdma(const std::string& machine) const {
    if (with_.manifest == nullptr) return false;
    for (const ManifestMachine& one : with_.manifest->machines) {
      if (one.name == machine)
        return std::any_of(one.nics.begin(), one.nics.end(), [](const auto& nic) { return nic.rdma; });
    }
    return false;
  }

  void Paths() {
    const auto calibrations = with_.preflight != nullptr ? CalibrationsOf(*with_.preflight)
                                                         : std::map<std::string, PathCalibration>();
    std::set<std::string> uncalibrated;
    const auto expected = PathsOf(
        facts_.transfers, sampled_.facts, calibrations,
        [&](const std::string& machine, const auto&) {
          uncalibrated.insert(machine);
          return PathBytes{NotMeasured{""}, NotMeasured{""}};
        },
        facts_.simulated);
    for (size_t i = 0; i < expected.size(); ++i) {
      const stats::PathEvidence& sampled = expected[i];
      const auto& paths = facts_.evidence.paths;
      const auto at = std::find_if(paths.begin(), paths.end(), [&](const auto& path) {
        return path.from == sampled.from && path.to == sampled.to;
      });
      if (at == paths.end() || !Sampled(sampled.from)) continue;
      const std::string pair = sampled.from + " to " + sampled.to;
      Held("evidence.paths: whether " + pair + " is simulated", at->simulated, facts_.simulated,
           "facts.simulated");
      if (uncalibrated.contains(sampled.from)) {
        OneOfTheDevices(*at, ShareOfSender(facts_.transfers, facts_.transfers[i]));
        continue;
      }
      Held("evidence.paths: tcp_bytes of " + pair, at->tcp_bytes, sampled.tcp_bytes, "the samples");
      const bool none = at->rdma_bytes.has_value() && *at->rdma_bytes == 0 && !HasRdma(sampled.from);
      if (!none)
        Held("evidence.paths: rdma_bytes of " + pair, at->rdma_bytes, sampled.rdma_bytes, "the samples");
    }
  }

  // Preflight did not measure this sender: the directory does not say which device carries the pool's
  // address, so what was counted must be what some device of it sent.
  void OneOfTheDevices(const stats::PathEvidence& path, double share) {
    const auto& sent = sampled_.facts.sent_by_device.at(path.from);
    double rdma = 0;
    bool tcp_found = !path.tcp_bytes.has_value();
    for (const auto& [device, bytes] : sent) {
      if (device.starts_with("rdma:")) rdma += bytes * share;
      if (device.starts_with("net:")) tcp_found = tcp_found || Same(*path.tcp_bytes, bytes * share);
    }
    const std::string pair = path.from + " to " + path.to;
    if (!tcp_found)
      lines_.push_back("evidence.paths: tcp_bytes of " + pair + " is " + Shown(path.tcp_bytes) +
                       ", which by the samples no network device of " + path.from + " sent");
    if (path.rdma_bytes.value_or(0) > rdma && !Same(*path.rdma_bytes, rdma))
      lines_.push_back("evidence.paths: rdma_bytes of " + pair + " is " + Shown(path.rdma_bytes) +
                       ", by the samples all RDMA devices of " + path.from + " sent " + Shown(rdma));
  }

  void Others() {
    if (sampled_.facts.simulated) Held("facts.simulated", facts_.simulated, true, "the samples");
    const auto alone = [&](const char* what, bool there) {
      if (there)
        lines_.push_back(std::string("facts.") + what +
                         " holds readings of switches, of which nothing else in the directory tells");
    };
    alone("switch_power", !facts_.switch_power.empty());
    alone("switch_counters", !facts_.switch_counters.empty());
    alone("links", !facts_.links.empty());
  }

  const RepeatFacts& facts_;
  const Witnesses& with_;
  const SampledFacts sampled_;
  std::vector<std::string>& problems_;
  std::vector<std::string> lines_;  // of the kind at hand
};

}  // namespace

void CompareFacts(const RepeatFacts& facts, const Witnesses& witnesses, SampledFacts sampled,
                  std::vector<std::string>* problems) {
  Comparer(facts, witnesses, std::move(sampled), problems).Run();
}

}  // namespace poolmark::results
