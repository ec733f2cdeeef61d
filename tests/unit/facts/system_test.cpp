#include "agent/facts/system.h"

#include <catch2/catch.hpp>

#include "agent/facts/drives.h"
#include "agent/facts/text.h"
#include "agent/facts/tools.h"
#include "common/base/files.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::agent;

TEST_CASE("CPU model and count, also of Arm machines that print no model") {
  const Cpu xeon = ParseCpuInfo(*ReadTrimmed(test::Root("nvidia-connectx"), "/proc/cpuinfo"));
  CHECK(xeon.cpus == 4);
  CHECK(xeon.model == "INTEL(R) XEON(R) PLATINUM 8592+");
  CHECK(ParseCpuInfo(*ReadTrimmed(test::Root("gb200"), "/proc/cpuinfo")).model == "Arm Neoverse-V2");
  CHECK(ParseCpuInfo("").cpus == 0);
  CHECK(ParseCpuInfo("processor\nprocessor : x\n: 1\n").cpus == 0);
}

TEST_CASE("memory is in bytes, huge pages are counts") {
  const auto values =
      ParseMemInfo("MemTotal:       24690000 kB\nHugePages_Total:       8\nbroken\nX: y kB\n");
  CHECK(values.at("MemTotal") == 24690000ull * 1024);
  CHECK(values.at("HugePages_Total") == 8);
  CHECK(values.size() == 2);
  CHECK(ParseMemInfo("X: 18446744073709551615 kB").empty());
}

TEST_CASE("limits: unlimited is absent, a missing line is no answer") {
  const auto limits = ParseLimits(
      "Max open files            1024                 1048576              files     \n"
      "Max locked memory         8388608              unlimited            bytes     \n");
  REQUIRE(limits);
  CHECK(limits->memlock.soft == 8388608u);
  CHECK_FALSE(limits->memlock.hard);
  CHECK(limits->nofile.hard == 1048576u);
  CHECK_FALSE(ParseLimits("Max open files            1024                 1048576              files\n"));
  CHECK_FALSE(ParseLimits("Max open files x y\nMax locked memory 1 2\n"));
}

TEST_CASE("lockable memory is the smallest bound, and says which", "[C10]") {
  const auto limited = ReadLockable(test::Root("amd-bnxt"));
  REQUIRE(limited);
  CHECK(limited->bytes == 8388608);
  CHECK(limited->why.find("RLIMIT_MEMLOCK") != std::string::npos);
  // unlimited, but in a control group with 8 GiB of which 1 is used
  const auto grouped = ReadLockable(test::Root("vm"));
  REQUIRE(grouped);
  CHECK(grouped->bytes == (7ull << 30));
  CHECK(grouped->why.find("/system.slice") != std::string::npos);
  const auto free = ReadLockable(test::Root("nvidia-connectx"));
  REQUIRE(free);
  CHECK(free->bytes == 2000000000ull * 1024);
  CHECK_FALSE(ReadLockable("/nonexistent"));
  CHECK(HasIpcLock("CapEff:\t0000000000004000\n"));
  CHECK_FALSE(HasIpcLock("CapEff:\t0000000000003fff\n"));
  CHECK_FALSE(HasIpcLock("CapEff: zz\n"));
}

TEST_CASE("identity comes from files") {
  const Identity identity = ReadIdentity(test::Root("nvidia-connectx"));
  CHECK(identity.hostname == "gpu1");
  CHECK(identity.os == "Ubuntu 24.04.1 LTS");
  CHECK(identity.kernel == "6.8.0-45-generic");
  CHECK(identity.product == "PowerEdge XE9680");
  CHECK(identity.boot_id.size() == 36);
  CHECK(ReadIdentity(test::Root("gb200")).product == "GB200 NVL");
  CHECK(CountNumaNodes(test::Root("nvidia-connectx")) == 2);
  CHECK(CountNumaNodes(test::Root("vm")) == 1);
  CHECK(CountNumaNodes("/nonexistent") == 1);
}

TEST_CASE("drives are whole disks, counted once") {
  const auto drives = ReadDrives(test::Root("nvidia-connectx"));
  REQUIRE(drives.size() == 2);  // no loop, no device mapper
  CHECK(drives[0].name == "nvme0n1");
  CHECK(drives[0].size_bytes == 15002931888ull * 512);
  CHECK_FALSE(drives[0].rotational);
  CHECK(drives[1].rotational);
  REQUIRE(ReadDrives(test::Root("amd-bnxt")).size() == 1);  // nvme0c0n1 is a path of nvme0n1
}

TEST_CASE("versions are read from what tools print") {
  CHECK(ParseToolVersion("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18.5") == "3.12");
  CHECK(ParseToolVersion("Version: 6.06\n") == "6.06");
  CHECK(ParseToolVersion("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0") == "7.0.15");
  CHECK(ParseToolVersion("chronyc (chrony) version 4.3 (+READLINE)") == "4.3");
  CHECK(ParseToolVersion("ping from iputils 20221126") == "20221126");
  CHECK(ParseToolVersion("node_exporter, version 1.12.1 (branch: HEAD)") == "1.12.1");
  CHECK(ParseToolVersion("all-smi 0.22.0\n") == "0.22.0");
  CHECK(ParseToolVersion("ipmitool version 1.8.19") == "1.8.19");
  CHECK(ParseToolVersion("NVIDIA-SMI version  : 550.127.08") == "550.127.08");
  CHECK(ParseToolVersion("no numbers").empty());
  CHECK(ParseToolVersion("").empty());
}

TEST_CASE("the recorded limits and memory of a machine parse", "[C10][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto limits = ParseLimits(*ReadFile(*shared + "/data/switches/ports/proc_self_limits.txt"));
  REQUIRE(limits);
  CHECK(limits->memlock.soft == 8388608u);
  CHECK(limits->nofile.hard == 20000u);
  const auto memory = ParseMemInfo(*ReadFile(*shared + "/data/switches/ports/meminfo_locked.txt"));
  CHECK(memory.at("MemAvailable") == 23495336ull * 1024);
  CHECK(memory.at("HugePages_Total") == 0);
  CHECK(ParseToolVersion(*ReadFile(*shared + "/data/switches/iperf3/iperf3_version.txt")) == "3.12");
  CHECK(ParseToolVersion(*ReadFile(*shared + "/data/switches/perftest/version.txt")) == "6.06");
  CHECK(ParseToolVersion(*ReadFile(*shared + "/data/switches/clock/chronyc_version.txt")) == "4.3");
}
