#include "agent/facts/network.h"

#include <catch2/catch.hpp>

#include "agent/facts/sockets.h"
#include "common/base/files.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::agent;

TEST_CASE("network cards: MTU, speed, driver, addresses", "[C9]") {
  const auto nics = ReadNics(test::Root("nvidia-connectx"), {{"ens1np0", {"10.0.0.1", "fe80::1"}}});
  REQUIRE(nics.size() == 3);  // bonding_masters is no interface
  CHECK(nics[1].name == "ens1np0");
  CHECK(nics[1].mtu == 9000);
  CHECK(nics[1].speed_bits_per_second == 400'000'000'000u);
  CHECK(nics[1].driver == "mlx5_core");
  CHECK(nics[1].addresses[0] == "10.0.0.1");
  CHECK_FALSE(nics[2].speed_bits_per_second);  // lo
  const auto vm = ReadNics(test::Root("vm"), {});
  CHECK_FALSE(vm[0].speed_bits_per_second);  // 4294967295 means unknown
  CHECK(ReadNics("/nonexistent", {}).empty());
}

TEST_CASE("RDMA ports with and without gid attributes", "[C8]") {
  const auto mlx = ReadRdmaPorts(test::Root("nvidia-connectx"));
  REQUIRE(mlx.size() == 2);
  CHECK(mlx[0].device == "mlx5_0");
  CHECK(mlx[0].state == "ACTIVE");
  CHECK(mlx[0].rate == "400 Gb/sec (4X NDR)");
  CHECK(mlx[0].netdev == "ens1np0");
  CHECK(mlx[0].driver == "mlx5_core");
  CHECK(mlx[1].state == "DOWN");
  CHECK(mlx[1].physical_state == "Disabled");
  const auto bnxt = ReadRdmaPorts(test::Root("amd-bnxt"));
  REQUIRE(bnxt.size() == 1);
  CHECK(bnxt[0].netdev == "enp1s0f0np0");
  CHECK(ReadRdmaPorts(test::Root("vm")).empty());
}

TEST_CASE("ibv_devinfo gives the active MTU") {
  const auto mtus = ParseIbvDevinfo(*ReadFile(test::Source("tests/data/vendor/ibv_devinfo.txt")));
  CHECK(mtus.at("mlx5_0").at(1) == 4096);
  CHECK(mtus.at("mlx5_1").at(1) == 1024);
  CHECK(ParseIbvDevinfo("active_mtu: 4096 (5)\nport: x\nhca_id: a\nactive_mtu: 1").empty());
  CHECK(RoceMtu(9000) == 4096);
  CHECK(RoceMtu(4200) == 4096);
  CHECK(RoceMtu(1500) == 1024);
  CHECK(RoceMtu(576) == 256);
}

TEST_CASE("the socket tables, with owners", "[C11]") {
  const auto sockets = ReadSockets(test::Root("nvidia-connectx"));
  REQUIRE(sockets.size() == 8);
  CHECK(sockets[0].local.ToString() == "127.0.0.1");
  CHECK(sockets[0].port == 18999);
  CHECK(sockets[0].listening());
  CHECK(sockets[0].uid == 996);
  CHECK(sockets[1].local.IsWildcard());
  CHECK(sockets[3].time_wait());
  CHECK(sockets[5].local.ToString() == "::");
  CHECK(sockets[6].local.ToString() == "127.0.0.1");  // a mapped address
  const auto owners = FindOwners(test::Root("nvidia-connectx"), {101, 102, 103, 104, 85592});
  REQUIRE(owners.size() == 4);
  CHECK(owners.at(103).pid == 902);
  CHECK(owners.at(103).name == "VLLM::Worker TP");
  CHECK(owners.at(104).name == "nc (odd) name");
  CHECK(owners.at(102).command == "/usr/bin/python3");
  CHECK(ReadSockets(test::Root("vm")).size() == 1);  // garbage lines are skipped
  CHECK(DualStack(test::Root("vm")));
}

TEST_CASE("malformed socket lines are skipped", "[C11]") {
  for (const char* line :
       {"0: 0100007F:4A37", "0: 0100007:4A37 0 0A 0 0 0 0 0 1", "0: 0100007F:GGGG 0 0A 0 0 0 0 0 1",
        "0: 0100007F:4A37 0 0A 0 0 0 x 0 1", "0 0100007F:4A37 0 0A 0 0 0 0 0 1"}) {
    INFO(line);
    CHECK(ParseProcNetTcp(line, false).empty());
  }
  CHECK(ParseProcNetTcp("0: 0100007F:4A37 0 0A 0 0 0 0 0 1", false).size() == 1);
  CHECK(ParseProcNetTcp("0: 0100007F:4A37 0 0A 0 0 0 0 0 1", true).empty());
}

TEST_CASE("what counts as a public address", "[C11]") {
  for (const char* text : {"8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "2a00:1450::1",
                           "::ffff:8.8.8.8"}) {
    INFO(text);
    CHECK(IpAddress::Parse(text)->IsPublic());
  }
  for (const char* text : {"127.0.0.1",   "10.1.2.3",   "172.16.0.1",  "172.31.255.1",    "192.168.1.1",
                           "169.254.1.1", "100.64.0.1", "100.127.0.1", "0.0.0.0",         "224.0.0.1",
                           "203.0.113.7", "::",         "::1",         "fe80::1",         "fd00::1",
                           "fc00::1",     "ff02::1",    "2001:db8::1", "::ffff:10.0.0.1", "198.18.0.1"}) {
    INFO(text);
    CHECK_FALSE(IpAddress::Parse(text)->IsPublic());
  }
  CHECK(IpAddress::Parse("fe80::1%eth0"));
  CHECK_FALSE(IpAddress::Parse("host"));
  CHECK(IpAddress::Parse("::ffff:127.0.0.1")->IsLoopback());
}

TEST_CASE("the recorded socket tables agree with ss", "[C11][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const std::string ports = *shared + "/data/switches/ports/";
  const auto four = ParseProcNetTcp(*ReadFile(ports + "proc_net_tcp.txt"), false);
  REQUIRE(four.size() == 2);
  CHECK(four[0].local.ToString() == "127.0.0.1");
  CHECK(four[0].port == 18999);
  CHECK(four[1].local.IsWildcard());
  CHECK(four[1].port == 18998);
  const auto six = ParseProcNetTcp(*ReadFile(ports + "proc_net_tcp6.txt"), true);
  REQUIRE(six.size() == 4);
  CHECK(six[0].port == 18997);
  CHECK(six[0].local.IsWildcard());
  CHECK(six[1].local.ToString() == "::1");
  CHECK(six[2].local.ToString() == "127.0.0.1");
  CHECK(six[2].time_wait());
  CHECK(ParseIbvDevinfo(*ReadFile(*shared + "/data/switches/perftest/ibv_devinfo_nodev.txt")).empty());
}
