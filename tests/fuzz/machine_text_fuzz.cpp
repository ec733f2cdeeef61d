// Everything an agent reads from its machine: /proc, vendor tools, measuring tools, BMCs. The first byte
// picks the parser.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/checks/fabric.h"
#include "agent/checks/iperf3.h"
#include "agent/checks/perftest.h"
#include "agent/checks/secret_scan.h"
#include "agent/facts/clock_state.h"
#include "agent/facts/gpus.h"
#include "agent/facts/network.h"
#include "agent/facts/sockets.h"
#include "agent/facts/system.h"
#include "agent/facts/tools.h"
#include "agent/telemetry/host_readers.h"
#include "agent/telemetry/perf.h"
#include "agent/telemetry/power.h"
#include "agent/telemetry/process_cpu.h"
#include "agent/telemetry/redis_info.h"

namespace {

using namespace poolmark::agent;

// A reading is a finite, positive number or a reason.
void Check(const poolmark::Measured<double>& value) {
  if (value.has_value() ? !(std::isfinite(*value) && *value > 0) : value.reason().empty()) std::abort();
}

void Machine(unsigned parser, const std::string& text) {
  switch (parser) {
    case 0:
      (void)ParseCpuInfo(text);
      (void)ParseMemInfo(text);
      (void)ParseLimits(text);
      (void)ParseOsRelease(text, "PRETTY_NAME");
      (void)HasIpcLock(text);
      break;
    case 1:
      for (const bool v6 : {false, true}) {
        for (const Socket& socket : ParseProcNetTcp(text, v6))
          (void)(socket.local.ToString().size() + socket.local.IsPublic());
      }
      break;
    case 2:
      (void)ParseCpuTimes(text, 100);
      (void)ParseNetDev(text);
      (void)ParseNetstat(text);
      (void)ParseDiskstats(text);
      break;
    case 3:
      (void)ParseProcessStat(text);
      break;
    case 4:
      (void)ParseToolVersion(text);
      (void)ParseIbvDevinfo(text);
      (void)ParseRedisAddress(text);
      break;
    default:
      break;
  }
}

void Tools(unsigned parser, const std::string& text) {
  switch (parser) {
    case 5:
      (void)ParseNvidiaSmi(text);
      (void)ParseNvidiaSmiReadings(text);
      break;
    case 6:
      (void)ParseAmdSmi(text);
      (void)ParseAmdSmiReadings(text);
      (void)ParseRocmSmi(text);
      break;
    case 7:
      if (const auto report = ParseIperf3(text); report.ok() && report->received_bits_per_second <= 0)
        std::abort();
      break;
    case 8:
      if (const auto report = ParseWriteBandwidth(text); report.ok() && report->average_bits_per_second <= 0)
        std::abort();
      if (const auto report = ParseWriteLatency(text); report.ok() && report->typical_us <= 0) std::abort();
      break;
    case 9:
      (void)ParseFabric(text);
      (void)ParseImex(text);
      (void)ParseChronyTracking(text);
      break;
    case 10:
      for (const SecretFinding& finding : ScanCommandLine(SplitCommandLine(text), {"canary-value"})) {
        if (finding.argument >= SplitCommandLine(text).size()) std::abort();
        if (finding.kind.find("canary-value") != std::string::npos) std::abort();
      }
      break;
    case 11:
      if (const auto reading = ParseDcmi(text); reading.has_value() && (*reading).watts == 0) std::abort();
      break;
    case 12:
      Check(EnvironmentPower(text));
      Check(ControlPower(text));
      for (const std::string& path : CollectionMembers(text)) {
        if (path.rfind("/redfish/", 0) != 0) std::abort();
      }
      break;
    case 13:
      (void)ParsePerfStat(text, {{"uncore_imc/cas_count_read/"}, {"umc_cas_cmd.wr"}, ""}, 1);
      break;
    case 14:
      (void)ParseRedisInfo(text);
      break;
    default:
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const unsigned parser = data[0] % 15;
  Machine(parser, text);
  Tools(parser, text);
  return 0;
}
