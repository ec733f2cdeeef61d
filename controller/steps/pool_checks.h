// What only the whole pool can show: clocks that agree, one GPU family, one MTU. Pure: facts and readings in,
// check results out.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/machines/clock_probe.h"
#include "poolmark/v1/agent.pb.h"
#include "poolmark/v1/common.pb.h"

namespace poolmark::controller {

struct MachineView {
  v1::Facts facts;
  std::optional<ClockReading> clock;
  std::string address;                    // in the pool's network
  std::vector<std::string> rdma_devices;  // that a stack of the job moves KV over
  bool has_engines = true;                // false: its GPUs do not count
  std::set<uint32_t> planned_gpus;        // numbers of those that the plan gives to engines
};

inline constexpr Nanoseconds kClockLimit = std::chrono::milliseconds(100);  // M9
inline constexpr Nanoseconds kClockNote = std::chrono::milliseconds(10);

// The largest difference between two of the machines' clocks against the limits of M9.
v1::CheckResult CheckClocks(const std::map<std::string, MachineView>& machines);
// One vendor and model, and every GPU that the plan uses is still listed.
v1::CheckResult CheckGpuFamily(const std::map<std::string, MachineView>& machines);
// One MTU in each of the pool's networks: on the devices that carry its addresses, and on its RDMA cards.
v1::CheckResult CheckMtu(const std::map<std::string, MachineView>& machines);

std::vector<v1::CheckResult> CheckPool(const std::map<std::string, MachineView>& machines);

// Does this result let the job go on? Everything but a pass, a note or "does not apply" stops it.
bool Stops(const v1::CheckResult& result);

}  // namespace poolmark::controller
