// pool.yaml as plain structs: the machines a job may use and how their networks hang together.
// Pure values; read by common/spec/read.h.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poolmark::spec {

struct Bmc {
  std::string kind;  // "redfish" or "ipmitool"
  std::string address;
  std::string login;  // name of a secret
};

struct MachineSpec {
  std::string name;
  std::string tcp_address;  // net.tcp: where KV and requests travel; empty: the agent's own address
  std::vector<std::string> rdma_devices;  // net.rdma
  std::optional<unsigned> gpus;           // nothing: all
  std::string disk;                       // where disk tiers go; empty: the agent's work directory
  bool is_public = false;                 // has an address that the internet reaches
  std::optional<Bmc> bmc;
};

struct SwitchSpec {
  std::string name;
  std::string address;
  std::string login;
  bool ignore = false;
};

struct PoolSpec {
  std::string head;                       // empty: the first machine
  std::vector<MachineSpec> machines;      // empty when only a count was given
  std::optional<unsigned> machine_count;  // `machines: 4`: the plan picks
  std::vector<SwitchSpec> switches;
};

}  // namespace poolmark::spec
