#include "common/stats/energy.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common/stats/summary.h"

namespace poolmark::stats {
namespace {

constexpr Nanoseconds kGap = std::chrono::seconds(30);
// Joules of less than this share of the window are not held against the tokens of all of it.
constexpr double kWholeWindow = 0.95;

}  // namespace

std::string_view PowerKindName(PowerKind kind) {
  static constexpr std::string_view names[] = {"bmc", "telemetry", "gpus"};
  return names[static_cast<int>(kind)];
}

Measured<Joules> Integrate(const std::vector<Sample>& watts, Nanoseconds from, Nanoseconds to) {
  Joules out;
  for (size_t i = 1; i < watts.size(); ++i) {
    const Sample& a = watts[i - 1];
    const Sample& b = watts[i];
    if (b.at - a.at > kGap || b.at <= a.at) continue;
    const Nanoseconds low = std::max(a.at, from), high = std::min(b.at, to);
    if (high <= low) continue;
    const auto at = [&](Nanoseconds time) {
      return a.value + (b.value - a.value) * ToSeconds(time - a.at) / ToSeconds(b.at - a.at);
    };
    out.joules += (at(low) + at(high)) / 2 * ToSeconds(high - low);
    out.covered_seconds += ToSeconds(high - low);
  }
  if (out.covered_seconds <= 0)
    return NotMeasured{"no two power samples within 30 s of each other in the window"};
  return out;
}

namespace {

bool CoversWindow(const Joules& energy, Nanoseconds from, Nanoseconds to) {
  return energy.covered_seconds >= kWholeWindow * ToSeconds(to - from);
}

Measured<Joules> OfGpus(const MachinePower& power, Nanoseconds from, Nanoseconds to) {
  if (power.gpus.empty()) return NotMeasured{"the machine reports no power"};
  Joules sum;
  for (size_t i = 0; i < power.gpus.size(); ++i) {
    const auto one = Integrate(power.gpus[i], from, to);
    if (!one.has_value()) return NotMeasured{"not every GPU reported its power"};
    sum.joules += (*one).joules;
    sum.covered_seconds =
        i == 0 ? (*one).covered_seconds : std::min(sum.covered_seconds, (*one).covered_seconds);
  }
  return sum;
}

std::string Text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", seconds);
  return text;
}

}  // namespace

MachineEnergy EnergyOf(const MachinePower& power, Nanoseconds from, Nanoseconds to) {
  const MachineEnergy kinds[] = {{power.machine, PowerKind::kBmc, Integrate(power.bmc, from, to)},
                                 {power.machine, PowerKind::kTelemetry, Integrate(power.telemetry, from, to)},
                                 {power.machine, PowerKind::kGpus, OfGpus(power, from, to)}};
  const MachineEnergy* best = nullptr;
  for (const MachineEnergy& kind : kinds) {
    if (!kind.energy.has_value()) continue;
    if (CoversWindow(*kind.energy, from, to)) return kind;
    if (best == nullptr || (*kind.energy).covered_seconds > (*best->energy).covered_seconds) best = &kind;
  }
  if (best != nullptr) return *best;
  // Of the best kind that the machine has at all, why it gave nothing.
  return !power.bmc.empty() ? kinds[0] : !power.telemetry.empty() ? kinds[1] : kinds[2];
}

EnergyFigures Energy(const std::vector<MachinePower>& machines, const std::vector<SwitchPower>& switches,
                     Nanoseconds from, Nanoseconds to, double output_tokens) {
  EnergyFigures out;
  double joules = 0;
  std::string missing, no_node, partly;
  for (const MachinePower& power : machines) {
    out.machines.push_back(EnergyOf(power, from, to));
    const MachineEnergy& energy = out.machines.back();
    if (!energy.energy.has_value()) {
      missing += (missing.empty() ? "" : ", ") + power.machine + " (" + energy.energy.reason() + ")";
      continue;
    }
    joules += (*energy.energy).joules;
    if (!CoversWindow(*energy.energy, from, to))
      partly += (partly.empty() ? "power of " : ", ") + power.machine + " was read for " +
                Text((*energy.energy).covered_seconds) + " of " + Text(ToSeconds(to - from)) + " s";
    if (energy.kind == PowerKind::kGpus) no_node += (no_node.empty() ? "" : ", ") + power.machine;
  }
  double network = 0;
  std::string no_ports;
  for (const SwitchPower& power : switches) {
    SwitchEnergy energy{power.name, NotMeasured{"the switch reports no input power"},
                        NotMeasured{"no energy"}};
    if (!power.input_watts.empty()) {
      energy.joules = Mean(power.input_watts) * ToSeconds(to - from);
      if (power.ports_used && power.ports_up && *power.ports_up > 0) {
        energy.share =
            *energy.joules * static_cast<double>(*power.ports_used) / static_cast<double>(*power.ports_up);
        network += *energy.share;
      } else {
        energy.share = NotMeasured{"the switch does not report its ports"};
      }
    }
    if (!energy.share.has_value())
      no_ports += (no_ports.empty() ? "" : ", ") + power.name + " (" +
                  (energy.joules.has_value() ? energy.share.reason() : energy.joules.reason()) + ")";
    out.switches.push_back(std::move(energy));
  }
  const bool none = std::all_of(machines.begin(), machines.end(), [](const MachinePower& power) {
    return power.bmc.empty() && power.telemetry.empty() && power.gpus.empty();
  });
  if (none || !missing.empty()) {
    out.joules = NotMeasured{none ? "no machine reported power" : "no power of " + missing};
    out.tokens_per_joule = out.tokens_per_joule_with_network = NotMeasured{out.joules.reason()};
    return out;
  }
  out.joules = joules;
  if (!partly.empty()) {
    out.tokens_per_joule = out.tokens_per_joule_with_network = NotMeasured{partly};
    return out;
  }
  out.tokens_per_joule = joules > 0 ? Measured<double>(output_tokens / joules) : NotMeasured{"no energy"};
  if (switches.empty()) {
    out.tokens_per_joule_with_network = NotMeasured{"no switch was read"};
  } else if (!no_node.empty()) {
    out.tokens_per_joule_with_network =
        NotMeasured{"only GPU power of " + no_node + ": wall power of switches is another measure"};
  } else if (!no_ports.empty()) {
    out.tokens_per_joule_with_network = NotMeasured{"no network share of " + no_ports};
  } else {
    out.tokens_per_joule_with_network = output_tokens / (joules + network);
  }
  return out;
}

}  // namespace poolmark::stats
