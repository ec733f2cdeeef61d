#include "controller/stacks/rdma.h"

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

bool Active(const v1::RdmaPort& port) {
  return port.state() == "ACTIVE";
}

const v1::Nic* NicOf(const v1::RdmaPort& port, const v1::Facts& facts) {
  for (const v1::Nic& nic : facts.nics()) {
    if (!port.netdev().empty() && nic.name() == port.netdev()) return &nic;
  }
  return nullptr;
}

}  // namespace

bool NamesPort(const std::string& named, const v1::RdmaPort& port) {
  return named == port.device() || named == absl::StrCat(port.device(), ":", port.port());
}

std::vector<v1::RdmaPort> PoolPorts(const std::vector<std::string>& named, const v1::Facts& facts) {
  std::vector<v1::RdmaPort> ports;
  if (named.empty()) {
    std::copy_if(facts.rdma_ports().begin(), facts.rdma_ports().end(), std::back_inserter(ports), Active);
    return ports;
  }
  for (const std::string& name : named) {
    std::vector<v1::RdmaPort> meant;
    for (const v1::RdmaPort& port : facts.rdma_ports()) {
      if (NamesPort(name, port)) meant.push_back(port);
    }
    if (std::any_of(meant.begin(), meant.end(), Active)) std::erase_if(meant, std::not_fn(Active));
    ports.insert(ports.end(), meant.begin(), meant.end());
  }
  return ports;
}

std::vector<std::string> PoolDevices(const std::vector<std::string>& named, const v1::Facts& facts) {
  std::vector<std::string> devices;
  const auto add = [&](const v1::RdmaPort& port) {
    devices.push_back(port.port() <= 1 ? port.device() : absl::StrCat(port.device(), ":", port.port()));
  };
  for (const std::string& name : named) {
    const auto ports = PoolPorts({name}, facts);
    // Named with its port it stays so.
    if (ports.empty() || absl::StrContains(name, ':')) {
      devices.push_back(name);
      continue;
    }
    std::for_each(ports.begin(), ports.end(), add);
  }
  if (named.empty()) {
    const auto ports = PoolPorts(named, facts);
    std::for_each(ports.begin(), ports.end(), add);
  }
  return devices;
}

std::string RdmaAddressOf(const v1::RdmaPort& port, const v1::Facts& facts) {
  const v1::Nic* nic = NicOf(port, facts);
  if (nic == nullptr) return "";
  // A link-local address needs its interface beside it.
  const auto usable = std::find_if(nic->addresses().begin(), nic->addresses().end(), [](const auto& one) {
    return !absl::StartsWith(one, "fe80:") && !absl::StartsWith(one, "169.254.");
  });
  return usable == nic->addresses().end() ? "" : *usable;
}

uint32_t RdmaMtuOf(const v1::RdmaPort& port, const v1::Facts& facts) {
  if (port.link_layer() == "InfiniBand") return port.active_mtu();
  const v1::Nic* nic = NicOf(port, facts);
  return nic == nullptr ? port.active_mtu() : nic->mtu();
}

}  // namespace poolmark::controller
