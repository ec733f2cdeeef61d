// The NVLink fabric of GB200 and GB300 machines: what nvidia-smi -q -x says of each GPU, and the node list of
// nvidia-imex-ctl. Pure. Tag spellings differ between drivers (cliqueId, clique_id): case and "_" are
// ignored.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::agent {

struct FabricGpu {
  std::string gpu;      // bus id
  std::string state;    // "Completed", "N/A"
  std::string status;   // "Success"
  std::string cluster;  // cluster UUID; all zero: not configured
  std::string clique;
  bool joined() const;  // completed, successful, and in a cluster
};
std::vector<FabricGpu> ParseFabric(std::string_view nvidia_smi_xml);

struct ImexDomain {
  bool up = false;                  // the domain itself
  std::vector<std::string> ready;   // addresses of ready nodes
  std::vector<std::string> others;  // "10.0.0.2 UNAVAILABLE"
};
// `nvidia-imex-ctl -N`: "Node #0 * 10.0.0.1 * - READY - Version: ...", "Domain State: UP".
ImexDomain ParseImex(std::string_view text);

}  // namespace poolmark::agent
