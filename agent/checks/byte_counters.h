// What this machine's network cards say they sent. Reads under a root directory; no state.
#pragma once
#include <map>
#include <string>

namespace poolmark::agent {

// "net:<interface>" -> bytes by /proc/net/dev; "rdma:<device>" -> payload bytes of all its ports, by
// counters/ or, where a driver has none (bnxt_re), hw_counters/. What cannot be read is absent, a saturated
// counter too.
std::map<std::string, double> SentBytes(const std::string& root);

// How far each rose; one that fell (a reset) or is on one side only is absent.
std::map<std::string, double> Rise(const std::map<std::string, double>& before,
                                   const std::map<std::string, double>& after);

}  // namespace poolmark::agent
