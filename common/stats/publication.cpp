#include "common/stats/publication.h"

#include <set>

namespace poolmark::stats {

std::vector<std::string> HeldBack(const PublicationFacts& facts) {
  std::vector<std::string> out;
  if (!facts.valid) out.push_back("the result is not valid");
  if (facts.simulated) out.push_back("the engine is simulated");
  if (facts.machines.empty()) out.push_back("no machine is recorded with the tools that measured it");
  for (const auto& machine : facts.machines) {
    if (machine.tools == 0) {
      out.push_back(machine.name + " recorded no tool that measured its counters");
    } else if (!machine.missing.empty()) {
      out.push_back(machine.name + " recorded no tool for " + machine.missing);
    }
  }
  for (const auto& engine : facts.unread)
    out.push_back("not every engine was read, so where the prompt tokens came from is not known: " + engine);
  for (const auto& pair : facts.unjudged)
    out.push_back("the network path of the KV cache could not be judged: " + pair);
  std::set<std::string> said;
  for (const auto& name : facts.series) {
    if (name.confirmed) continue;
    std::string line = name.figure + " was read through " + name.series +
                       ", which is not confirmed on a live " + name.dialect +
                       (name.version.empty() ? " (version unknown)" : " " + name.version);
    if (said.insert(line).second) out.push_back(std::move(line));
  }
  for (const auto& name : facts.unnamed)
    out.push_back(name.figure + " was read through " + name.series +
                  ", which the manifest does not name: nothing says that it is confirmed");
  for (const auto& engine : facts.unlisted_engines)
    out.push_back("the manifest does not list " + engine + " as it was read: its version is not recorded");
  for (const auto& device : facts.unlisted_switches)
    out.push_back("switch " + device + " has readings, but the manifest does not list it");
  for (const auto& device : facts.switches) {
    if (!device.cabled || device.ignored || !device.readable || device.found_after_end) continue;
    if (!device.read) {
      out.push_back("switch " + device.name +
                    ", which the pool's RDMA network cards are cabled to, was not read");
      continue;
    }
    for (const auto& field : device.unconfirmed_fields) {
      out.push_back("switch " + device.name + " was read through the field name " + field +
                    ", which is not confirmed");
    }
  }
  return out;
}

}  // namespace poolmark::stats
