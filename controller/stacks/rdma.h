// Which RDMA ports of a machine are the pool's, and how checks and tools name them. Pure.
#pragma once
#include <string>
#include <vector>

#include "poolmark/v1/agent.pb.h"

namespace poolmark::controller {

// "mlx5_0" or "mlx5_0:1", as pool files write it.
bool NamesPort(const std::string& named, const v1::RdmaPort& port);

// Those that `named` (net.rdma of the pool file) means, in its order: of a device named without a port its
// active ports, or all where none is. Nothing named: every active port of the machine.
std::vector<v1::RdmaPort> PoolPorts(const std::vector<std::string>& named, const v1::Facts& facts);

// The same for tools, which take port 1 of a device unless told: "mlx5_0", "mlx5_1:2". What the facts do not
// know stays as it is named.
std::vector<std::string> PoolDevices(const std::vector<std::string>& named, const v1::Facts& facts);

// The address of the network device behind a port, one that reaches other machines; "" where it has none.
std::string RdmaAddressOf(const v1::RdmaPort& port, const v1::Facts& facts);

// What counts as the port's MTU: on Ethernet (RoCE) that of its network device, on InfiniBand the port's own.
// 0: not known.
uint32_t RdmaMtuOf(const v1::RdmaPort& port, const v1::Facts& facts);

}  // namespace poolmark::controller
