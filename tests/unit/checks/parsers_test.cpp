#include <catch2/catch.hpp>
#include <filesystem>

#include "agent/checks/byte_counters.h"
#include "agent/checks/fabric.h"
#include "agent/checks/iperf3.h"
#include "agent/checks/perftest.h"
#include "agent/checks/secret_scan.h"
#include "agent/facts/clock_state.h"
#include "agent/facts/text.h"
#include "common/base/files.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::agent;

namespace {
std::string VendorOutput(const std::string& name) {
  return *ReadFile(test::Source("tests/data/vendor/" + name));
}
using Argv = std::vector<std::string>;
}  // namespace

TEST_CASE("iperf3's recorded reports: goodput at the receiver, and errors that exit with 0",
          "[C13][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto parse = [&](const std::string& name) {
    return ParseIperf3(*ReadFile(*shared + "/data/switches/iperf3/" + name));
  };
  const auto four = parse("client_loopback_P4.json");
  REQUIRE(four.ok());
  CHECK(four->received_bits_per_second == Approx(7133835196.64));
  CHECK(four->streams == 4);
  CHECK(four->retransmits == 1);
  CHECK(four->version == "3.12");
  // the sender's socket buffer counts as sent: only what was received is the line rate
  const auto shaped = parse("iperf3_tbf200mbit.json");
  REQUIRE(shaped.ok());
  CHECK(shaped->sent_bits_per_second == Approx(199468949.2));
  CHECK(shaped->received_bits_per_second == Approx(189737987.1));
  CHECK(parse("iperf3_reverse.json").ok());
  CHECK(parse("iperf3_client_bidir.json").ok());
  const std::vector<std::pair<std::string, std::string>> failures = {
      {"iperf3_refused.json", "Connection refused"},
      {"refused.json", "Connection refused"},
      {"iperf3_busy.json", "busy running a test"},
      {"iperf3_unreachable.json", "timed out"},
      {"server_killed.json", "reset by peer"}};
  for (const auto& [name, words] : failures) {
    const auto report = parse(name);
    INFO(name);
    REQUIRE_FALSE(report.ok());
    CHECK(std::string(report.status().message()).find(words) != std::string::npos);
  }
}

TEST_CASE("what is no iperf3 report is refused", "[C13]") {
  for (const char* text :
       {"", "iperf3: error - unable to connect", "[]", "{}", "{\"end\":{}}", "{\"end\":3}", "{\"error\":5}",
        "{\"end\":{\"sum_sent\":{},\"sum_received\":{}}}",
        "{\"end\":{\"sum_sent\":{},\"sum_received\":{\"bits_per_second\":\"fast\"}}}",
        "{\"end\":{\"sum_sent\":{\"retransmits\":-1},\"sum_received\":{\"bits_per_second\":0}}}"}) {
    INFO(text);
    CHECK_FALSE(ParseIperf3(text).ok());
  }
  const auto odd =
      ParseIperf3("{\"end\":{\"sum_sent\":{\"retransmits\":-1},\"sum_received\":{\"bits_per_second\":8}}}");
  REQUIRE(odd.ok());
  CHECK(odd->retransmits == 0);
}

TEST_CASE("ib_write_bw in both units, ib_write_lat by iterations", "[C14]") {
  const auto bandwidth = ParseWriteBandwidth(VendorOutput("ib_write_bw.txt"));
  REQUIRE(bandwidth.ok());
  CHECK(bandwidth->average_bits_per_second == Approx(387.26e9));
  CHECK(bandwidth->message_bytes == 65536);
  const auto mebibytes = ParseWriteBandwidth(VendorOutput("ib_write_bw_mib.txt"));
  REQUIRE(mebibytes.ok());
  CHECK(mebibytes->average_bits_per_second == Approx(46165.32 * 1048576 * 8));
  const auto latency = ParseWriteLatency(VendorOutput("ib_write_lat.txt"));
  REQUIRE(latency.ok());
  CHECK(latency->typical_us == Approx(1.58));
  CHECK(latency->p99_us == Approx(1.84));
  CHECK_FALSE(ParseWriteLatency(VendorOutput("ib_write_lat_duration.txt")).ok());
  for (const char* text :
       {"", "#bytes", " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n",
        " #bytes #iterations BW average[Gb/sec]\n 65536 1 fast\n",
        " #bytes #iterations BW average[Gb/sec]\n 65536 1 0\n",
        " #bytes #iterations BW average[Gb/sec]\n 65536 1 -3\n",
        " #bytes #iterations BW average[Gb/sec]\n 65536 1 1e308\n", "[[[[", "#bytes #"}) {
    INFO(text);
    CHECK_FALSE(ParseWriteBandwidth(text).ok());
    CHECK_FALSE(ParseWriteLatency(text).ok());
  }
}

TEST_CASE("a count that no integer holds is no count", "[C14]") {
  const auto bandwidth = ParseWriteBandwidth("#bytes #iterations BW average[Gb/sec]\n4 1e300 100\n");
  REQUIRE(bandwidth.ok());
  CHECK(bandwidth->iterations == 0);
  CHECK(bandwidth->message_bytes == 4);
}

TEST_CASE("perftest without a device says so", "[C14][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto report =
      ParseWriteBandwidth(*ReadFile(*shared + "/data/switches/perftest/ib_write_bw_nodev.txt"));
  REQUIRE_FALSE(report.ok());
  CHECK(std::string(report.status().message()).find("Did not detect devices") != std::string::npos);
}

TEST_CASE("chrony's recorded answers", "[C6][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const std::string dir = *shared + "/data/switches/clock/";
  const auto good = ParseChronyTracking(*ReadFile(dir + "chronyc_tracking.csv"));
  REQUIRE(good);
  CHECK(good->synchronised);
  CHECK(good->stratum == 9);
  CHECK(*good->bound_seconds < 0.001);
  const auto bad = ParseChronyTracking(*ReadFile(dir + "chronyc_tracking_unsynced.csv"));
  REQUIRE(bad);
  CHECK_FALSE(bad->synchronised);
  CHECK_FALSE(bad->bound_seconds);
  CHECK_FALSE(ParseChronyTracking(*ReadFile(dir + "chronyc_nodaemon.txt")));
  CHECK_FALSE(ParseChronyTracking(*ReadFile(dir + "chronyc_tracking.txt")));
  CHECK_FALSE(ParseChronyTracking("7F7F0101,,x,0,0,0,0,0,0,0,0,0,0,Normal"));
  const auto local = ParseChronyTracking("7F7F0101,,10,0,0,0,0,0,0,0,0,0,0,Normal");
  REQUIRE(local);
  CHECK(local->local_source);
}

TEST_CASE("the NVLink fabric of a GB200, with both tag spellings", "[J5]") {
  const auto gpus = ParseFabric(VendorOutput("nvidia-smi-gb200.xml"));
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].joined());
  CHECK(gpus[1].joined());
  CHECK(gpus[0].gpu == "00000008:01:00.0");
  CHECK(gpus[0].clique == gpus[1].clique);
  FabricGpu zero = gpus[0];
  zero.cluster = "00000000-0000-0000-0000-000000000000";
  CHECK_FALSE(zero.joined());
  zero.cluster = "N/A";
  CHECK_FALSE(zero.joined());
  CHECK(ParseFabric("").empty());
  CHECK(ParseFabric("<gpu id=\"1\"><fabric><state>Comp").size() == 1);
  CHECK(ParseFabric("<gpu ").size() == 1);
  const ImexDomain domain = ParseImex(VendorOutput("imex-ctl.txt"));
  CHECK(domain.up);
  CHECK(domain.ready == Argv{"10.0.0.1", "10.0.0.2"});
  CHECK(domain.others.empty());
  const ImexDomain down =
      ParseImex("Node #0 - 10.0.0.1 - UNAVAILABLE - Version: x\nDomain State: DOWN\nNode #\n");
  CHECK_FALSE(down.up);
  CHECK(down.others.size() == 2);
}

TEST_CASE("byte counters of cards: RDMA ports with counters/, with hw_counters/ only, saturated", "[J1]") {
  test::TempDir root;
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root / path).parent_path());
    REQUIRE(AtomicWriteFile(root / path, text).ok());
  };
  put("proc/net/dev", "Inter-|\n face |\n eth0: 1 2 3 4 5 6 7 8 900 10 11 12 13 14 15 16\n");
  const std::string base = "sys/class/infiniband/";
  for (const char* device : {"mlx5_0", "bnxt_re0", "old0"}) {
    put(base + device + "/ports/1/state", "4: ACTIVE\n");
    put(base + device + "/ports/1/link_layer", "Ethernet\n");
  }
  put(base + "mlx5_0/ports/1/counters/port_xmit_data", "250\n");
  put(base + "bnxt_re0/ports/1/hw_counters/tx_bytes", "77\n");
  put(base + "old0/ports/1/counters/port_xmit_data", "4294967295\n");
  const auto sent = SentBytes(root.path());
  CHECK(sent ==
        std::map<std::string, double>{{"net:eth0", 900}, {"rdma:bnxt_re0", 77}, {"rdma:mlx5_0", 1000}});
  CHECK(Rise({{"a", 5}, {"b", 5}}, {{"a", 7}, {"b", 1}, {"c", 9}}) ==
        std::map<std::string, double>{{"a", 2}});
}

TEST_CASE("secrets on command lines, by option, by shape and by value", "[C12]") {
  const auto kinds = [](const Argv& argv, const Argv& known = {}) {
    Argv out;
    for (const SecretFinding& finding : ScanCommandLine(argv, known))
      out.push_back(std::to_string(finding.argument) + " " + finding.kind);
    return out;
  };
  CHECK(kinds({"vllm", "serve", "--api-key", "s3cr3t-value"}) == Argv{"3 --api-key"});
  CHECK(kinds({"x", "--hf-token=abcdefgh"}) == Argv{"1 --hf-token"});
  CHECK(kinds({"x", "--HF_TOKEN", "abcdefgh"}) == Argv{"2 --HF_TOKEN"});
  CHECK(kinds({"/usr/bin/ipmitool", "-P", "pw"}) == Argv{"2 -P"});
  CHECK(kinds({"redis-cli", "-a", "hunter2"}) == Argv{"2 -a"});
  CHECK(kinds({"redis-server", "--requirepass", "hunter22"}) == Argv{"2 --requirepass"});
  CHECK(kinds({"env", "HF_TOKEN=abcdefgh", "x"}) == Argv{"1 HF_TOKEN="});
  CHECK(kinds({"docker", "run", "-e", "MY_API_KEY=abcdefgh"}) == Argv{"3 MY_API_KEY="});
  CHECK(kinds({"curl", "https://user:pa55word@host/"}) == Argv{"1 a password in a URL"});
  CHECK(kinds({"curl", "-H", "Authorization: Bearer abcdefgh"}) == Argv{"2 an Authorization header"});
  CHECK(kinds({"x", "hf_abcdefghijklmnopqrstuvwxyz"}) == Argv{"1 a token beginning with hf_"});
  CHECK(kinds({"x", "key:sk-abcdefghijklmnopqrst"}) == Argv{"1 a token beginning with sk-"});
  CHECK(kinds({"x", "AKIAIOSFODNN7EXAMPLE"}) == Argv{"1 a token beginning with AKIA"});
  CHECK(kinds({"x", "prefixMYVALUEsuffix"}, {"MYVALUE"}) == Argv{"1 the value of a secret of this machine"});
}

TEST_CASE("ordinary command lines hold no secret", "[C12]") {
  for (const Argv& argv :
       std::vector<Argv>{{"vllm", "serve", "--max-num-batched-tokens", "8192", "--port", "8000"},
                         {"x", "--token"},
                         {"x", "--token", "--next"},
                         {"x", "--password", "$PASSWORD"},
                         {"ssh", "-p", "2222222"},
                         {"x", "-P", "production"},
                         {"git", "clone", "https://github.com/a/b.git"},
                         {"redis-cli", "-u", "redis://127.0.0.1:6379"},
                         {"disk-sk-abcdefghijklmnopqrst"},
                         {"x", "TOKENIZERS_PARALLELISM=false1"},
                         {}}) {
    INFO((argv.empty() ? "" : argv.back()));
    CHECK(ScanCommandLine(argv, {"abc"}).empty());
  }
}

TEST_CASE("the recorded command line with fake secrets", "[C12][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  Argv argv;
  const std::string text = *ReadFile(*shared + "/data/switches/ports/cmdline_secret_example.txt");
  for (std::string_view line : Lines(text)) argv.emplace_back(Trim(line.substr(0, line.find(" |"))));
  argv.erase(argv.begin(), argv.begin() + 2);  // timeout 4
  const auto findings = ScanCommandLine(argv, {"secretpw"});
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].kind == "--api-key");
  CHECK(findings[1].kind == "--hf-token");
  CHECK(findings[2].kind == "the value of a secret of this machine");
  for (const SecretFinding& finding : findings) {
    CHECK(finding.kind.find("TEST") == std::string::npos);
    CHECK(finding.kind.find("secretpw") == std::string::npos);
  }
}
