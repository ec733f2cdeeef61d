#include "common/stats/energy.h"

#include <algorithm>
#include <chrono>

#include "common/stats/summary.h"

namespace poolmark::stats {
namespace {

constexpr Nanoseconds kGap = std::chrono::seconds(30);

double Seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

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
      return a.value + (b.value - a.value) * Seconds(time - a.at) / Seconds(b.at - a.at);
    };
    out.joules += (at(low) + at(high)) / 2 * Seconds(high - low);
    out.covered_seconds += Seconds(high - low);
  }
  if (out.covered_seconds <= 0)
    return NotMeasured{"no two power samples within 30 s of each other in the window"};
  return out;
}

MachineEnergy EnergyOf(const MachinePower& power, Nanoseconds from, Nanoseconds to) {
  MachineEnergy out;
  out.machine = power.machine;
  out.kind = PowerKind::kBmc;
  out.energy = Integrate(power.bmc, from, to);
  if (out.energy.has_value()) return out;
  out.kind = PowerKind::kTelemetry;
  out.energy = Integrate(power.telemetry, from, to);
  if (out.energy.has_value()) return out;
  out.kind = PowerKind::kGpus;
  Joules sum;
  bool all = !power.gpus.empty();
  for (const auto& gpu : power.gpus) {
    const auto one = Integrate(gpu, from, to);
    all = all && one.has_value();
    if (!one.has_value()) continue;
    sum.joules += (*one).joules;
    sum.covered_seconds = sum.covered_seconds == 0 ? (*one).covered_seconds
                                                   : std::min(sum.covered_seconds, (*one).covered_seconds);
  }
  if (all) {
    out.energy = sum;
  } else {
    out.energy =
        NotMeasured{power.gpus.empty() ? "the machine reports no power" : "not every GPU reported its power"};
  }
  return out;
}

EnergyFigures Energy(const std::vector<MachinePower>& machines, const std::vector<SwitchPower>& switches,
                     Nanoseconds from, Nanoseconds to, double output_tokens) {
  EnergyFigures out;
  double joules = 0;
  std::string missing, no_node;
  for (const MachinePower& power : machines) {
    out.machines.push_back(EnergyOf(power, from, to));
    const MachineEnergy& energy = out.machines.back();
    if (!energy.energy.has_value()) {
      missing += (missing.empty() ? "" : ", ") + power.machine + " (" + energy.energy.reason() + ")";
      continue;
    }
    joules += (*energy.energy).joules;
    if (energy.kind == PowerKind::kGpus) no_node += (no_node.empty() ? "" : ", ") + power.machine;
  }
  double network = 0;
  std::string no_ports;
  for (const SwitchPower& power : switches) {
    SwitchEnergy energy{power.name, NotMeasured{"the switch reports no input power"},
                        NotMeasured{"no energy"}};
    if (!power.input_watts.empty()) {
      energy.joules = Mean(power.input_watts) * Seconds(to - from);
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
  if (machines.empty() || !missing.empty()) {
    out.joules = NotMeasured{machines.empty() ? "no machine reported power" : "no power of " + missing};
    out.tokens_per_joule = out.tokens_per_joule_with_network = NotMeasured{out.joules.reason()};
    return out;
  }
  out.joules = joules;
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
