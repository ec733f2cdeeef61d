// Energy from power samples (methodology, "Energy", "Network energy"; decision M17). Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/stats/counters.h"

namespace poolmark::stats {

struct Joules {
  double joules = 0;
  double covered_seconds = 0;  // of the window; gaps longer than 30 s are left out
};
// Trapezoid between consecutive samples (watts) at most 30 s apart, over [from, to]; samples outside the
// window serve to interpolate at its edges. Not measured without two such samples.
Measured<Joules> Integrate(const std::vector<Sample>& watts, Nanoseconds from, Nanoseconds to);

// Power series of one machine, best first: BMC node power, node power its telemetry sampled, its GPUs
// together.
struct MachinePower {
  std::string machine;
  std::vector<Sample> bmc, telemetry;
  std::vector<std::vector<Sample>> gpus;
};
enum class PowerKind { kBmc, kTelemetry, kGpus };
std::string_view PowerKindName(PowerKind kind);  // "bmc", "telemetry", "gpus"

struct MachineEnergy {
  std::string machine;
  PowerKind kind = PowerKind::kBmc;
  Measured<Joules> energy;
};
// Each machine once, at the best power it measured over the window; where none covers it, the one that covers
// most.
MachineEnergy EnergyOf(const MachinePower& power, Nanoseconds from, Nanoseconds to);

struct SwitchPower {
  std::string name;
  std::vector<double> input_watts;               // readings of the job: sum of its PSU inputs
  std::optional<uint64_t> ports_used, ports_up;  // nothing: the switch does not report its ports
};
struct SwitchEnergy {
  std::string name;
  Measured<double> joules;  // mean power times the window's length
  Measured<double> share;   // the pool's part of it
};

struct EnergyFigures {
  std::vector<MachineEnergy> machines;
  std::vector<SwitchEnergy> switches;
  Measured<double> joules;  // machines only
  Measured<double> tokens_per_joule;
  Measured<double> tokens_per_joule_with_network;
};
// `machines`: all of the pool, those that report no power too: tokens per joule needs the power of each, over
// at least 95 % of the window. The network figure needs node power of every machine and the ports of every
// switch.
EnergyFigures Energy(const std::vector<MachinePower>& machines, const std::vector<SwitchPower>& switches,
                     Nanoseconds from, Nanoseconds to, double output_tokens);

}  // namespace poolmark::stats
