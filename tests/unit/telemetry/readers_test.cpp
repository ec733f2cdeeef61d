#include <catch2/catch.hpp>

#include "agent/facts/network.h"
#include "agent/telemetry/ethtool.h"
#include "agent/telemetry/host_readers.h"
#include "agent/telemetry/perf.h"
#include "agent/telemetry/power.h"
#include "agent/telemetry/process_cpu.h"
#include "agent/telemetry/redis_info.h"
#include "agent/telemetry/source.h"
#include "common/base/files.h"
#include "tests/support/fake_spawner.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::agent;

namespace {

const prom::Catalogue& Shipped() {
  static const prom::Catalogue catalogue = *prom::Catalogue::Load(test::Source("deploy/catalogue"));
  return catalogue;
}
const prom::Dialect& Host() {
  return *Shipped().Find("host");
}
std::string Root(const std::string& name) {
  return test::Source("tests/data/roots/" + name);
}
std::string Vendor(const std::string& name) {
  return *ReadFile(test::Source("tests/data/vendor/" + name));
}

// The reading of a series with these labels; fails when it is not there.
Measured<double> Value(const std::vector<Point>& points, const std::string& name,
                       const prom::Labels& labels = {}) {
  for (const Point& point : points) {
    if (point.name == name && point.labels == labels) return point.value;
  }
  FAIL("no point " << name);
  return NotMeasured{};
}
bool HasSeries(const std::vector<Point>& points, const std::string& name) {
  for (const Point& point : points) {
    if (point.name == name) return true;
  }
  return false;
}

std::string StatLine(int pid, const std::string& name, char state, int parent, int user, int system,
                     int children, int start) {
  return std::to_string(pid) + " (" + name + ") " + state + " " + std::to_string(parent) +
         " 1 1 0 -1 0 0 0 0 0 " + std::to_string(user) + " " + std::to_string(system) + " " +
         std::to_string(children) + " 0 20 0 1 0 " + std::to_string(start) + " 0 0\n";
}

}  // namespace

TEST_CASE("the machine's counters from /proc, under node_exporter's names", "[F9][F10][C23]") {
  PointBuilder builder(Host());
  ReadProc(Root("nvidia-connectx"), &builder);
  const auto points = builder.Take();
  CHECK(*Value(points, "node_cpu_seconds_total", {{"mode", "user"}}) == Approx(10.0));
  CHECK(*Value(points, "node_cpu_seconds_total", {{"mode", "idle"}}) == Approx(400.0));
  CHECK(*Value(points, "node_memory_MemAvailable_bytes") == 2000000000.0 * 1024);
  CHECK(*Value(points, "node_network_receive_bytes_total", {{"device", "ens1np0"}}) == 7000000);
  CHECK(*Value(points, "node_network_receive_drop_total", {{"device", "eno1"}}) == 1);
  CHECK(*Value(points, "node_netstat_Tcp_RetransSegs") == 321);
  CHECK(*Value(points, "node_netstat_TcpExt_TCPSynRetrans") == 17);
  CHECK(*Value(points, "node_netstat_IpExt_OutOctets") == 987654321);
  CHECK(*Value(points, "node_disk_read_bytes_total", {{"device", "nvme0n1"}}) == 2048 * 512);
  for (const Point& point : points) CHECK(point.series != nullptr);
}

TEST_CASE("what cannot be read is not measured", "[F22]") {
  PointBuilder builder(Host());
  ReadProc("/nonexistent", &builder);
  const auto points = builder.Take();
  CHECK_FALSE(points.empty());
  for (const Point& point : points) {
    INFO(point.name);
    CHECK_FALSE(point.value.has_value());
  }
}

TEST_CASE("ConnectX: words become bytes, once; hw_counters that node_exporter lacks have their own names",
          "[F9][F21]") {
  PointBuilder builder(Host());
  ReadRdmaCounters(Root("nvidia-connectx"), &builder);
  const auto points = builder.Take();
  const prom::Labels port = {{"device", "mlx5_0"}, {"port", "1"}};
  CHECK(*Value(points, "node_infiniband_port_data_transmitted_bytes_total", port) == 1e12);
  CHECK(*Value(points, "node_infiniband_port_data_received_bytes_total", port) == 5e11);
  CHECK(*Value(points, "node_infiniband_np_cnp_packets_sent_total", port) == 42);
  CHECK(*Value(points, "rdma_hw_counter",
               {{"device", "mlx5_0"}, {"port", "1"}, {"counter", "req_transport_retries_exceeded"}}) == 2);
  PointBuilder extra(Host());
  ReadExtraRdmaCounters(Root("nvidia-connectx"), &extra);
  const auto only_extra = extra.Take();
  CHECK_FALSE(HasSeries(only_extra, "node_infiniband_port_data_received_bytes_total"));
  CHECK(HasSeries(only_extra, "rdma_hw_counter"));
}

TEST_CASE("bnxt_re: bytes from hw_counters, RoCE discards, retries, reads and writes sent", "[F21][F22]") {
  PointBuilder builder(Host());
  ReadRdmaCounters(Root("amd-bnxt"), &builder);
  const auto points = builder.Take();
  const prom::Labels port = {{"device", "bnxt_re0"}, {"port", "1"}};
  CHECK(*Value(points, "node_infiniband_port_data_transmitted_bytes_total", port) ==
        7521781137064.0);  // no words here
  for (const char* counter : {"rx_roce_discards", "max_retry_exceeded", "tx_read_req", "tx_write_req"}) {
    prom::Labels labels = port;
    labels.emplace_back("counter", counter);
    INFO(counter);
    CHECK(Value(points, "rdma_hw_counter", labels).has_value());
  }
  // the driver counts no packets: not measured, never zero
  const auto packets = Value(points, "node_infiniband_port_packets_received_total", port);
  REQUIRE_FALSE(packets.has_value());
  CHECK(packets.reason().find("gives no") != std::string::npos);
  CHECK_FALSE(HasSeries(points, "node_infiniband_port_transmit_wait_total"));  // no PFC or pause counters
}

TEST_CASE("saturated, unreadable and malformed RDMA counters are not measured", "[F22]") {
  test::TempDir root;
  const std::string port = root / "sys/class/infiniband/x0/ports/1";
  REQUIRE(MakeDirs(port + "/counters").ok());
  REQUIRE(MakeDirs(port + "/hw_counters").ok());
  REQUIRE(AtomicWriteFile(port + "/state", "4: ACTIVE\n").ok());
  REQUIRE(AtomicWriteFile(port + "/counters/port_rcv_data", "4294967295\n").ok());
  REQUIRE(AtomicWriteFile(port + "/counters/port_xmit_data", "N/A (no PMA)\n").ok());
  REQUIRE(AtomicWriteFile(port + "/hw_counters/odd", "18446744073709551615\n").ok());
  PointBuilder builder(Host());
  ReadRdmaCounters(root.path(), &builder);
  const auto points = builder.Take();
  const prom::Labels labels = {{"device", "x0"}, {"port", "1"}};
  CHECK(Value(points, "node_infiniband_port_data_received_bytes_total", labels).reason().find("2^32") !=
        std::string::npos);
  CHECK_FALSE(Value(points, "node_infiniband_port_data_transmitted_bytes_total", labels).has_value());
  CHECK_FALSE(
      Value(points, "rdma_hw_counter", {{"device", "x0"}, {"port", "1"}, {"counter", "odd"}}).has_value());
}

TEST_CASE("malformed /proc files give what they can") {
  CHECK(ParseCpuTimes("cpu 1 2\n", 100).empty());
  CHECK(ParseCpuTimes("", 100).empty());
  CHECK(ParseNetDev("face |bytes\n eth0: 1 2 x\n eth1:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n").size() == 1);
  CHECK(ParseNetstat("A: b c\nA: 1\nB: d\nB: -1\nC: e\n").empty());
  CHECK(ParseNetstat("A: b c\nA: 1 2\n").at("A_c") == 2);
  CHECK(ParseDiskstats("259 0 nvme0n1 1\n").empty());
  const auto drives = ParseDiskstats(
      "8 0 sda 1 0 2 0 1 0 4 0 0 5 5\n8 1 sda1 1 0 2 0 1 0 4 0 0 5 5\n253 0 dm-0 1 0 2 0 1 0 4 0 0 5 5\n");
  REQUIRE(drives.size() == 1);
  CHECK(drives[0].io_seconds == Approx(0.005));
}

TEST_CASE("the recorded interface counters hold what was sent", "[J1][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto at = [&](const char* name) {
    for (const InterfaceCounters& counters :
         ParseNetDev(*ReadFile(*shared + "/data/switches/netns/" + name))) {
      if (counters.name == "va") return counters.receive_bytes;
    }
    return uint64_t{0};
  };
  const double received =
      static_cast<double>(at("proc_net_dev_a_after.txt") - at("proc_net_dev_a_before.txt"));
  CHECK(received == Approx(1.6003e9).epsilon(0.001));  // 1.593 GB of payload and its headers
}

TEST_CASE("driver statistics that tell the path are kept, queues are not", "[F9][J1]") {
  for (const char* name : {"rx_bytes_phy", "tx_vport_rdma_unicast_bytes", "rx_vport_unicast_bytes",
                           "rx_prio3_pause", "tx_pause_ctrl_phy", "rx_bytes", "rx_discards_phy"}) {
    INFO(name);
    CHECK(KeepsStatistic(name));
  }
  for (const char* name : {"rx0_bytes", "rx_queue_0_bytes", "rx_queue_1_xdp_packets", "ch0_events",
                           "peer_ifindex", "", "rx_cqe_compress_blks"}) {
    INFO(name);
    CHECK_FALSE(KeepsStatistic(name));
  }
}

TEST_CASE("driver statistics of this machine's interfaces, or none", "[F9][live]") {
  Ethtool ethtool;
  CHECK(ethtool.Read("no-such-interface").empty());
  CHECK(ethtool.Read("an-interface-name-that-is-far-too-long").empty());
  for (const auto& [name, addresses] : ReadAddresses()) {
    const auto first = ethtool.Read(name), second = ethtool.Read(name);
    for (const auto& [statistic, value] : first) {
      INFO(name << " " << statistic);
      CHECK(KeepsStatistic(statistic));
      REQUIRE(second.count(statistic) == 1);
      CHECK(second.at(statistic) >= value);
    }
  }
}

TEST_CASE("one process's stat line, whatever its name", "[F19]") {
  const auto stat = ParseProcessStat(StatLine(902, "VLLM::Worker (TP 0) x", 'S', 901, 9000, 900, 7, 2002));
  REQUIRE(stat);
  CHECK(stat->name == "VLLM::Worker (TP 0) x");
  CHECK(stat->parent == 901);
  CHECK(stat->own_ticks == 9900);
  CHECK(stat->children_ticks == 7);
  CHECK(stat->start_ticks == 2002);
  for (const char* text :
       {"", "1", "1 (a", "1 a) S 1", "1 (a) S", "x (a) S 1 1 1 0 -1 0 0 0 0 0 1 1 1 0 20 0 1 0 5 0",
        "1 (a) S 1 1 1 0 -1 0 0 0 0 0 y 1 1 0 20 0 1 0 5 0"}) {
    INFO(text);
    CHECK_FALSE(ParseProcessStat(text));
  }
}

TEST_CASE("engine CPU time follows the process tree", "[F19]") {
  ProcessTrees trees(Root("nvidia-connectx"), 100);
  trees.NextRound();
  const auto vllm = trees.Read(900);
  REQUIRE(vllm.has_value());
  CHECK((*vllm).processes == 3);
  CHECK((*vllm).seconds == Approx((150 + 4600 + 9900) / 100.0));
  CHECK((*trees.Read(950)).processes == 1);
  CHECK_FALSE(trees.Read(12345).has_value());
}

TEST_CASE("a tree's CPU time never falls, a reused pid starts anew, a zombie has ended", "[F19][F22]") {
  test::TempDir root;
  const auto write = [&](int pid, const std::string& line) {
    REQUIRE(MakeDirs(root / ("proc/" + std::to_string(pid))).ok());
    REQUIRE(AtomicWriteFile(root / ("proc/" + std::to_string(pid) + "/stat"), line).ok());
  };
  write(10, StatLine(10, "api", 'S', 1, 100, 0, 0, 50));
  write(11, StatLine(11, "worker", 'R', 10, 500, 0, 0, 60));
  ProcessTrees trees(root.path(), 100);
  trees.NextRound();
  CHECK((*trees.Read(10)).seconds == Approx(6.0));
  // the worker ends and nobody waited for it: its time is not lost
  REQUIRE(RemoveTree(root / "proc/11").ok());
  trees.NextRound();
  CHECK((*trees.Read(10)).seconds == Approx(6.0));
  // waited for: counted once, through its parent
  write(10, StatLine(10, "api", 'S', 1, 150, 0, 500, 50));
  trees.NextRound();
  CHECK((*trees.Read(10)).seconds == Approx(6.5));
  // another process took the number
  write(10, StatLine(10, "other", 'S', 1, 3, 0, 0, 900));
  trees.NextRound();
  CHECK((*trees.Read(10)).seconds == Approx(0.03));
  write(10, StatLine(10, "other", 'Z', 1, 3, 0, 0, 900));
  CHECK(trees.Read(10).reason() == "the process has ended");
}

TEST_CASE("new children are found within a few rounds", "[F19]") {
  test::TempDir root;
  const auto write = [&](int pid, int parent) {
    REQUIRE(MakeDirs(root / ("proc/" + std::to_string(pid))).ok());
    REQUIRE(AtomicWriteFile(root / ("proc/" + std::to_string(pid) + "/stat"),
                            StatLine(pid, "p", 'S', parent, 100, 0, 0, 50 + pid))
                .ok());
  };
  write(10, 1);
  ProcessTrees trees(root.path(), 100);
  trees.NextRound();
  CHECK((*trees.Read(10)).processes == 1);
  write(11, 10);
  write(12, 11);
  int processes = 1;
  for (int round = 0; round < 5 && processes == 1; ++round) {
    trees.NextRound();
    processes = (*trees.Read(10)).processes;
  }
  CHECK(processes == 3);
}

TEST_CASE("ipmitool's recorded answers: watts, or a reason", "[F12][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto parse = [&](const std::string& name) {
    return ParseDcmi(*ReadFile(*shared + "/data/switches/bmc/dcmi_" + name + ".out"));
  };
  REQUIRE(parse("ok").has_value());
  CHECK((*parse("ok")).watts == 412);
  CHECK((*parse("ok")).activated);
  CHECK((*parse("zerots")).watts == 412);
  REQUIRE(parse("inactive").has_value());  // OpenBMC: valid watts, judged over two readings
  CHECK_FALSE((*parse("inactive")).activated);
  CHECK(parse("zero").reason() == "the BMC says 0 W");
  CHECK(parse("short").reason().find("inconsistent") !=
        std::string::npos);  // uninitialised memory with exit code 0
  for (const char* name : {"c1", "cc", "d5"}) CHECK_FALSE(parse(name).has_value());
  CHECK_FALSE(ParseDcmi("").has_value());
  CHECK_FALSE(ParseDcmi("Instantaneous power reading: 412 Watts\n").has_value());
}

TEST_CASE(
    "ipmitool: password by environment, failures in its own words, a deactivated sensor needs two readings",
    "[F12]") {
  const auto answer = [](const char* state) {
    return std::string(
               "\n    Instantaneous power reading:                   412 Watts\n    Minimum during sampling "
               "period:                 96 Watts\n"
               "    Maximum during sampling period:                640 Watts\n    Average power reading over "
               "sample period:      388 Watts\n"
               "    IPMI timestamp:                           09/21/26 14:13:20 UTC    Sampling period:      "
               "                    00000001 Seconds.\n"
               "    Power reading state is:                   ") +
           state + "\n\n\n";
  };
  test::FakeSpawner spawner;
  spawner.Add("ipmitool", answer("activated"));
  IpmiPower remote(&spawner, "10.9.0.1", "bmc:s3cret");
  CHECK(*remote.Read(std::chrono::seconds(1)) == 412);
  REQUIRE(spawner.started.size() == 1);
  for (const std::string& word : spawner.started[0].argv) CHECK(word.find("s3cret") == std::string::npos);
  CHECK(spawner.started[0].env.at("IPMI_PASSWORD") == "s3cret");
  // Before the ':' is what every user of the machine can read in the process list: without one, nothing is.
  for (const char* login : {"s3cret", ":s3cret", ""}) {
    IpmiPower bare(&spawner, "10.9.0.1", login);
    CHECK(bare.Read(std::chrono::seconds(1)).reason().find("not of the form user:password") !=
          std::string::npos);
  }
  CHECK(spawner.started.size() == 1);
  test::FakeSpawner deactivated;
  deactivated.Add("ipmitool", answer("deactivated"));
  IpmiPower local(&deactivated, "", "");
  CHECK_FALSE(local.Read(std::chrono::seconds(1)).has_value());
  CHECK(*local.Read(std::chrono::seconds(1)) == 412);
  test::FakeSpawner broken;
  broken.Add("ipmitool", "\n", 1, "DCMI request failed because: Invalid command (c1)\n");
  CHECK(IpmiPower(&broken, "", "").Read(std::chrono::seconds(1)).reason().find("Invalid command (c1)") !=
        std::string::npos);
  test::FakeSpawner none;
  CHECK_FALSE(IpmiPower(&none, "", "").Read(std::chrono::seconds(1)).has_value());
}

TEST_CASE("Redfish's recorded resources", "[F12][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto body = [&](const std::string& name) {
    const std::string text = *ReadFile(*shared + "/data/switches/bmc/" + name);
    return text.substr(text.find("\r\n\r\n") + 4);
  };
  CHECK(*EnvironmentPower(body("redfish_Chassis_1U_EnvironmentMetrics.json")) == 374);
  CHECK(*ControlPower(body("redfish_Chassis_1U_Power.json")) == 344);
  CHECK(CollectionMembers(body("redfish_Chassis.json")) ==
        std::vector<std::string>{"/redfish/v1/Chassis/1U"});
}

TEST_CASE("Redfish's odd cases are not measured", "[F12][F22]") {
  for (const char* text : {"", "[]", "{}", "{\"PowerWatts\":3}", "{\"PowerWatts\":{\"Reading\":null}}",
                           "{\"PowerWatts\":{\"Reading\":\"374\"}}", "{\"PowerWatts\":{\"Reading\":0}}",
                           "{\"PowerWatts\":{\"Reading\":-5}}", "{\"PowerWatts\":{\"Reading\":1e9}}"}) {
    INFO(text);
    CHECK_FALSE(EnvironmentPower(text).has_value());
  }
  for (const char* text : {"{\"PowerControl\":null}", "{\"PowerControl\":[]}", "{\"PowerControl\":[1]}",
                           "{\"PowerControl\":[{}]}", "{\"PowerControl\":[{\"PowerConsumedWatts\":null}]}"}) {
    INFO(text);
    CHECK_FALSE(ControlPower(text).has_value());
  }
  // members without Status count; the chassis' own member wins; a rating of a supply is never taken
  CHECK(*ControlPower("{\"PowerControl\":[{\"PowerConsumedWatts\":100},{\"PowerConsumedWatts\":900,"
                      "\"PhysicalContext\":\"Chassis\"}]}") == 900);
  CHECK(*ControlPower("{\"PowerControl\":[{\"PowerConsumedWatts\":null},{\"PowerConsumedWatts\":200}],"
                      "\"PowerSupplies\":[{\"PowerInputWatts\":900}]}") == 200);
  CHECK(*ControlPower(
            "{\"Oem\":{\"ts_fujitsu\":{\"ChassisPowerConsumption\":{\"CurrentPowerConsumptionW\":277}}}}") ==
        277);
  // a login must not be led to another host
  CHECK(CollectionMembers(
            "{\"Members\":[{\"@odata.id\":\"http://evil/x\"},{\"@odata.id\":\"/redfish/v1/a\"},3,{}]}") ==
        std::vector<std::string>{"/redfish/v1/a"});
}

TEST_CASE("perf: both vendors' events, and what is not counted", "[F20][F22]") {
  test::TempDir root;
  const std::string devices = root / "sys/bus/event_source/devices";
  CHECK_FALSE(FindMemoryEvents(root.path()).missing.empty());
  REQUIRE(MakeDirs(devices + "/cpu").ok());
  CHECK(FindMemoryEvents(root.path()).missing.find("memory-controller") != std::string::npos);
  REQUIRE(MakeDirs(devices + "/uncore_imc_0").ok());
  const auto intel = ParsePerfStat(Vendor("perf-stat-intel.txt"), FindMemoryEvents(root.path()), 2);
  CHECK(*intel.read_bytes_per_second == Approx(1536.0 * 1048576 / 2));
  CHECK(*intel.write_bytes_per_second == Approx(512.0 * 1048576 / 2));
  MemoryEvents amd{{"umc_cas_cmd.rd"}, {"umc_cas_cmd.wr"}, ""};
  const auto umc = ParsePerfStat(Vendor("perf-stat-amd.txt"), amd, 1);
  CHECK(*umc.read_bytes_per_second == Approx(16000000.0 * 64));
  CHECK(umc.write_bytes_per_second.reason().find("<not counted>") != std::string::npos);
  CHECK_FALSE(ParsePerfStat("", amd, 1).read_bytes_per_second.has_value());
}

TEST_CASE("Redis' recorded INFO", "[F3][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto info =
      ParseRedisInfo(*ReadFile(*shared + "/data/engines/redis-7.0.15/info-everything-after-lmcache-kv.txt"));
  REQUIRE(info.ok());
  CHECK(info->version == "7.0.15");
  CHECK(info->keys == 4);
  const Reading reading = ReadingOf(*info, *Shipped().Find("redis"));
  CHECK(*Value(reading.points, "total_net_input_bytes") == 1050374);
  CHECK(*Value(reading.points, "keyspace_hits") == 8);
  CHECK(*Value(reading.points, "keys") == 4);
  REQUIRE(reading.identity.size() == 1);
  CHECK(reading.identity[0].first == "run_id");
  const auto rest =
      ParseRedisInfo(*ReadFile(*shared + "/data/engines/redis-7.0.15/info-everything-at-rest.txt"));
  CHECK(rest->keys == 0);
  CHECK(*Value(ReadingOf(*rest, *Shipped().Find("redis")).points, "keys") == 0);  // empty is a reading
}

TEST_CASE("what is no INFO, and what is no Redis address") {
  for (const char* text : {"", "PONG", "<html>", "redis_version:7\n", "run_id:a\n"}) {
    INFO(text);
    CHECK_FALSE(ParseRedisInfo(text).ok());
  }
  const auto valkey = ParseRedisInfo(
      "redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nrun_id:a\r\ndb0:keys=3,expires=0\r\ndb1:keys=x\r\ndbx:"
      "keys=9\r\n");
  CHECK(valkey->version == "8.0.1");
  CHECK(valkey->keys == 3);
  CHECK(ParseRedisAddress("redis://[::1]:6379")->first == "::1");
  CHECK(ParseRedisAddress("127.0.0.1:6379/")->second == 6379);
  for (const char* text : {"", "redis://", "redis://host", "redis://host:0", "redis://host:99999", ":6379"}) {
    INFO(text);
    CHECK_FALSE(ParseRedisAddress(text).ok());
  }
}

TEST_CASE("a page becomes catalogue series only, with what tells a restart apart", "[F3]") {
  const Reading reading = ReadingOf(
      "vllm:prompt_tokens_total{engine=\"0\"} 5\nvllm:prompt_tokens_created{engine=\"0\"} "
      "1.7e9\nprocess_start_time_seconds 1.6e9\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} NaN\nvllm:invented_total 3\n",
      *Shipped().Find("vllm"), "");
  REQUIRE(reading.failure.empty());
  CHECK(reading.points.size() == 2);
  CHECK(reading.identity.size() == 2);
  CHECK_FALSE(Value(reading.points, "vllm:kv_cache_usage_perc", {{"engine", "0"}}).has_value());
  CHECK_FALSE(ReadingOf("<html>", *Shipped().Find("vllm"), "").failure.empty());
}

TEST_CASE("all-smi's power is refused on machines with AMD GPUs, where it is in kilowatts", "[F24][F6]") {
  const std::string page =
      "all_smi_gpu_power_consumption_watts{gpu=\"AMD Instinct MI300X\", uuid=\"a\"} "
      "0.148\nall_smi_chassis_power_watts 1.2\n"
      "all_smi_gpu_utilization{gpu=\"AMD Instinct MI300X\", uuid=\"a\"} 55\n";
  const auto amd = ReadingOf(page, *Shipped().Find("all-smi"), "all-smi gives kilowatts").points;
  const prom::Labels gpu = {{"gpu", "AMD Instinct MI300X"}, {"uuid", "a"}};
  CHECK(Value(amd, "all_smi_gpu_power_consumption_watts", gpu).reason().find("kilowatts") !=
        std::string::npos);
  CHECK_FALSE(Value(amd, "all_smi_chassis_power_watts").has_value());
  CHECK(*Value(amd, "all_smi_gpu_utilization", gpu) == Approx(0.55));
  const auto nvidia =
      ReadingOf("all_smi_gpu_power_consumption_watts{uuid=\"a\"} 612\n", *Shipped().Find("all-smi"), "")
          .points;
  CHECK(*Value(nvidia, "all_smi_gpu_power_consumption_watts", {{"uuid", "a"}}) == 612);
}

TEST_CASE("0 W is not measured, per-CPU series are folded", "[F8][F22]") {
  const auto amd = ReadingOf("gpu_package_power{gpu_id=\"0\"} 0\ngpu_package_power{gpu_id=\"1\"} 712\n",
                             *Shipped().Find("amd"), "")
                       .points;
  CHECK_FALSE(Value(amd, "gpu_package_power", {{"gpu_id", "0"}}).has_value());
  CHECK(*Value(amd, "gpu_package_power", {{"gpu_id", "1"}}) == 712);
  const auto node = ReadingOf(
                        "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} "
                        "3\nnode_cpu_seconds_total{cpu=\"1\",mode=\"idle\"} 4\n",
                        *Shipped().Find("node_exporter"), "")
                        .points;
  REQUIRE(node.size() == 1);
  CHECK(*Value(node, "node_cpu_seconds_total", {{"mode", "idle"}}) == 7);
}

TEST_CASE("every recorded exporter page gives points of its dialect", "[F6][F9][F10][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const std::vector<std::pair<std::string, std::string>> pages = {
      {"node_exporter", "metrics/node_exporter-1.12.1.prom"},
      {"node_exporter", "metrics/node_exporter-1.12.1-infiniband-fakesysfs.prom"},
      {"all-smi", "metrics/all-smi-0.22.0.prom"},
      {"mooncake", "engines/mooncake_master-0.3.13.post1/metrics-at-rest.txt"},
      {"vllm-router", "engines/vllm-router-0.1.17/metrics-after-requests.txt"}};
  for (const auto& [dialect, file] : pages) {
    INFO(file);
    const Reading reading = ReadingOf(*ReadFile(*shared + "/data/" + file), *Shipped().Find(dialect), "");
    CHECK(reading.failure.empty());
    CHECK(reading.points.size() >= 2);
  }
}

TEST_CASE("vendor tools' load and power, and their refusals", "[F22][J3]") {
  test::FakeSpawner spawner;
  spawner.Add("nvidia-smi", Vendor("nvidia-smi-readings.csv"));
  GpuSource nvidia(std::chrono::seconds(5), "nvidia", &spawner, &Host());
  const auto points = nvidia.Read().points;
  const prom::Labels first = {{"gpu", "0"}, {"uuid", "GPU-3f1c2b7a-0000-4000-8000-000000000000"}};
  const prom::Labels second = {{"gpu", "1"}, {"uuid", "GPU-3f1c2b7a-0000-4000-8000-000000000001"}};
  CHECK(*Value(points, "gpu_power_watts", first) == Approx(612.34));
  CHECK_FALSE(Value(points, "gpu_power_watts", second).has_value());
  GpuSource amd(std::chrono::seconds(5), "amd", &spawner, &Host());
  CHECK_FALSE(amd.Read().failure.empty());  // not installed
  spawner.Add("amd-smi", Vendor("amd-smi-readings.json"));
  CHECK(*Value(amd.Read().points, "gpu_power_watts", {{"gpu", "0"}, {"uuid", ""}}) == Approx(148));
}
