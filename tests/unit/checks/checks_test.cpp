#include "agent/checks/checks.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "tests/support/fake_spawner.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::agent;

namespace {

std::string Vendor(const std::string& name) {
  return *ReadFile(test::Source("tests/data/vendor/" + name));
}

struct Machine {
  test::FakeSpawner spawner;
  CheckContext context;
  v1::CheckPlan plan;

  explicit Machine(const std::string& root) {
    context.machine = "n1";
    context.facts.root = test::Source("tests/data/roots/" + root);
    context.facts.spawner = &spawner;
    context.facts.work_dir = "/tmp";
    context.facts.addresses = [] { return AddressesOf({}); };
  }
  static std::map<std::string, std::vector<std::string>> AddressesOf(
      std::map<std::string, std::vector<std::string>> more) {
    more["lo"] = {"127.0.0.1", "::1"};
    return more;
  }
  void Addresses(std::map<std::string, std::vector<std::string>> more) {
    context.facts.addresses = [more] { return AddressesOf(more); };
  }
  v1::CheckResult Run(const std::string& id) {
    v1::CheckResult out;
    int count = 0;
    RunChecks(plan, {id}, context, [&](v1::CheckResult result) {
      out = std::move(result);
      ++count;
    });
    CHECK(count == 1);
    CHECK(out.id() == id);
    CHECK(out.machine() == "n1");
    INFO(out.ShortDebugString());
    CHECK_FALSE(out.observed().empty());
    // Everything but "does not apply" says what was expected and what was read; what stops or weakens a job
    // also what to do.
    if (out.outcome() != v1::OUTCOME_SKIPPED && id != "telepathy") {
      CHECK_FALSE(out.expected().empty());
      CHECK_FALSE(out.evidence().empty());
      CHECK((out.outcome() == v1::OUTCOME_PASS || !out.hint().empty()));
    }
    return out;
  }
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("all checks run in their order, a stop ends them, an unknown id fails", "[C28]") {
  Machine machine("vm");
  std::vector<std::string> ids;
  RunChecks(machine.plan, {}, machine.context,
            [&](const v1::CheckResult& result) { ids.push_back(result.id()); });
  CHECK(ids == CheckIds());
  std::stop_source stop;
  ids.clear();
  RunChecks(
      machine.plan, {}, machine.context,
      [&](const v1::CheckResult& result) {
        ids.push_back(result.id());
        if (ids.size() == 3) stop.request_stop();
      },
      stop.get_token());
  CHECK(ids.size() == 3);
  CHECK(machine.Run("telepathy").outcome() == v1::OUTCOME_FAIL);
}

TEST_CASE("clock: what the machine knows of its own clock", "[C6]") {
  Machine good("vm");
  good.spawner.Add("chronyc",
                   "0A630001,10.99.0.1,9,1796002241.7,-0.0000019,0.0,0.0,-0.025,0.003,0.064,0.0000087,0."
                   "0000012,1.0,Normal\n");
  CHECK(good.Run("clock").outcome() == v1::OUTCOME_PASS);
  Machine off("vm");
  off.spawner.Add(
      "chronyc",
      "0A630001,10.99.0.1,9,1796002241.7,-0.25,0.0,0.0,-0.025,0.003,0.064,0.0000087,0.0000012,1.0,Normal\n");
  CHECK(off.Run("clock").outcome() == v1::OUTCOME_NOTE);
  Machine none("vm");
  CHECK(none.Run("clock").outcome() == v1::OUTCOME_NOT_MEASURED);
}

TEST_CASE("gpu_family: one model, answered by its tool", "[C7][J4]") {
  Machine machine("nvidia-connectx");
  CHECK(machine.Run("gpu_family").outcome() == v1::OUTCOME_SKIPPED);
  machine.plan.set_need_gpus(true);
  auto result = machine.Run("gpu_family");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);  // on the bus, but no tool
  CHECK(Has(result.observed(), "2 GPUs on the PCI bus"));

  machine.spawner.Add("nvidia-smi", Vendor("nvidia-smi-h200.csv"));
  machine.plan.set_gpu_model("NVIDIA H200");
  machine.plan.set_gpu_vendor("nvidia");
  result = machine.Run("gpu_family");
  CHECK(result.outcome() == v1::OUTCOME_PASS);
  CHECK(result.observed() == "2 x nvidia NVIDIA H200, 140.40GiB");
  machine.plan.set_gpu_model("NVIDIA H200 NVL");  // another model
  CHECK(machine.Run("gpu_family").outcome() == v1::OUTCOME_FAIL);

  Machine mixed("nvidia-connectx");
  mixed.plan.set_need_gpus(true);
  std::string csv = Vendor("nvidia-smi-h200.csv");
  csv.replace(csv.rfind("H200"), 4, "H100");
  mixed.spawner.Add("nvidia-smi", csv);
  CHECK(mixed.Run("gpu_family").outcome() == v1::OUTCOME_FAIL);

  Machine mig("nvidia-connectx");
  mig.plan.set_need_gpus(true);
  csv = Vendor("nvidia-smi-h200.csv");
  csv.replace(csv.find("Disabled"), 8, "Enabled");
  mig.spawner.Add("nvidia-smi", csv);
  CHECK(Has(mig.Run("gpu_family").observed(), "MIG is on: GPU 0"));

  Machine dead("nvidia-connectx");
  dead.plan.set_need_gpus(true);
  dead.spawner.Add("nvidia-smi", "", 9, "couldn't communicate with the NVIDIA driver");
  CHECK(Has(dead.Run("gpu_family").observed(), "exited with 9"));

  Machine hung("nvidia-connectx");
  hung.plan.set_need_gpus(true);
  hung.spawner.Add("nvidia-smi", "", 0, "", "", true);
  result = hung.Run("gpu_family");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "nvidia-smi did not end within 30s"));
  CHECK(Has(result.hint(), "Xid"));

  Machine amd("amd-bnxt");
  amd.plan.set_need_gpus(true);
  amd.plan.set_gpu_model("AMD Instinct MI300X");
  amd.spawner.Add("rocm-smi", Vendor("rocm-smi.json"));
  CHECK(amd.Run("gpu_family").outcome() == v1::OUTCOME_PASS);
  amd.plan.set_gpu_vendor("nvidia");
  CHECK(amd.Run("gpu_family").outcome() == v1::OUTCOME_FAIL);
}

TEST_CASE("nvlink: fabric and IMEX domain of GB200 machines", "[J5]") {
  Machine machine("gb200");
  CHECK(machine.Run("nvlink").outcome() == v1::OUTCOME_SKIPPED);
  machine.plan.set_multi_node_nvlink(true);
  machine.plan.add_net_addresses("10.0.0.1");
  machine.plan.add_peers("10.0.0.2");
  CHECK(machine.Run("nvlink").outcome() == v1::OUTCOME_FAIL);
  machine.spawner.Add("nvidia-smi", Vendor("nvidia-smi-gb200.xml"));
  CHECK(Has(machine.Run("nvlink").observed(), "nvidia-imex-ctl"));
  machine.spawner.Add("nvidia-imex-ctl", Vendor("imex-ctl.txt"));
  const auto good = machine.Run("nvlink");
  CHECK(good.outcome() == v1::OUTCOME_PASS);
  CHECK(Has(good.observed(), "c3b1b1a0-1111-4222-8333-444455556666/32766"));
  machine.plan.add_peers("10.0.0.3");
  CHECK(Has(machine.Run("nvlink").observed(), "10.0.0.3"));

  Machine apart("gb200");
  apart.plan.set_multi_node_nvlink(true);
  std::string xml = Vendor("nvidia-smi-gb200.xml");
  xml.replace(xml.rfind("32766"), 5, "1    ");
  apart.spawner.Add("nvidia-smi", xml);
  apart.spawner.Add("nvidia-imex-ctl", Vendor("imex-ctl.txt"));
  CHECK(Has(apart.Run("nvlink").observed(), "different fabrics"));
}

TEST_CASE("rdma_ports: those of the plan are active", "[C8]") {
  Machine machine("nvidia-connectx");
  CHECK(machine.Run("rdma_ports").outcome() == v1::OUTCOME_SKIPPED);
  machine.plan.add_rdma_devices("mlx5_0");
  CHECK(machine.Run("rdma_ports").observed() == "active: mlx5_0 (400 Gb/sec (4X NDR))");
  machine.plan.add_rdma_devices("mlx5_1:1");
  auto result = machine.Run("rdma_ports");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(result.observed() == "not active: mlx5_1:1 (DOWN, Disabled)");
  Machine vm("vm");
  vm.plan.add_rdma_devices("mlx5_0");
  result = vm.Run("rdma_ports");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.hint(), "use a TCP stack"));
}

TEST_CASE("mtu: equal on this machine and carried to every peer", "[C9]") {
  Machine machine("nvidia-connectx");
  machine.Addresses({{"ens1np0", {"10.0.0.1"}}, {"eno1", {"10.9.0.1"}}});
  machine.plan.add_net_addresses("10.0.0.1");
  machine.plan.set_mtu(9000);
  CHECK(machine.Run("mtu").outcome() == v1::OUTCOME_PASS);
  machine.plan.add_peers("10.0.0.2");
  CHECK(machine.Run("mtu").outcome() == v1::OUTCOME_NOT_MEASURED);  // no ping here

  Machine carried("nvidia-connectx");
  carried.Addresses({{"ens1np0", {"10.0.0.1"}}});
  carried.plan = machine.plan;
  carried.spawner.Add("ping", "2 packets transmitted, 2 received, 0% packet loss\n", 0, "", "8972");
  const auto good = carried.Run("mtu");
  CHECK(good.outcome() == v1::OUTCOME_PASS);
  CHECK(good.observed() == "ens1np0 9000; carried to 1 peer");
  // It leaves by the address that the pool names.
  const auto& words = carried.spawner.started.at(0).argv;
  const auto from = std::find(words.begin(), words.end(), "-I");
  REQUIRE(from != words.end());
  CHECK(from[1] == "10.0.0.1");

  Machine cut("nvidia-connectx");
  cut.Addresses({{"ens1np0", {"10.0.0.1"}}});
  cut.plan = machine.plan;
  cut.spawner.Add("ping", "2 packets transmitted, 0 received, 100% packet loss\n", 1, "", "8972");
  cut.spawner.Add("ping", "2 packets transmitted, 2 received, 0% packet loss\n", 0, "", "56");
  const auto result = cut.Run("mtu");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "do not reach 10.0.0.2"));

  Machine silent("nvidia-connectx");
  silent.Addresses({{"ens1np0", {"10.0.0.1"}}});
  silent.plan = machine.plan;
  silent.spawner.Add("ping", "", 1);
  CHECK(silent.Run("mtu").outcome() == v1::OUTCOME_NOT_MEASURED);
  // An RDMA card's network is not this one: it is asked for by its own address.
  silent.plan.add_rdma_devices("mlx5_1");
  CHECK(Has(silent.Run("mtu").observed(), "ens1np0 9000; no answer"));

  machine.plan.add_net_addresses("10.9.0.1");
  CHECK(machine.Run("mtu").outcome() == v1::OUTCOME_FAIL);  // 9000 and 1500
  Machine elsewhere("nvidia-connectx");
  elsewhere.plan.add_net_addresses("10.7.0.1");
  CHECK(Has(elsewhere.Run("mtu").observed(), "no interface of this machine has 10.7.0.1"));
  elsewhere.plan.set_loopback_only(true);
  CHECK(elsewhere.Run("mtu").outcome() == v1::OUTCOME_SKIPPED);
}

TEST_CASE("mtu: peers that are silent are tried side by side, and each is named", "[C9]") {
  Machine machine("nvidia-connectx");
  machine.Addresses({{"ens1np0", {"10.0.0.1", "2001:db8::1"}}});
  machine.plan.add_net_addresses("10.0.0.1");
  machine.plan.add_net_addresses("2001:db8::1");
  for (int i = 0; i < 40; ++i) machine.plan.add_peers("10.0.1." + std::to_string(i));
  machine.plan.add_peers("2001:db8::9");
  machine.spawner.Add("ping", "", 0, "", "10.0.1.7");
  machine.spawner.Add("ping", "", 0, "", "2001:db8::9");
  machine.spawner.Add("ping", "", 1);
  const auto result = machine.Run("mtu");
  CHECK(result.outcome() == v1::OUTCOME_NOT_MEASURED);
  CHECK(Has(result.observed(), "no answer to any ping from 10.0.1.0, 10.0.1.1, "));
  CHECK(Has(result.observed(), " and 34 more"));
  CHECK(Has(result.evidence(), "10.0.1.7: 9000 bytes, not fragmented: answered"));
  CHECK(Has(result.evidence(), "2001:db8::9: 9000 bytes, not fragmented: answered"));
  // All of a window are started before the first is waited for, and IP version 6 has longer headers.
  const auto& started = machine.spawner.started;
  CHECK(started.size() == 80);
  CHECK(started.at(31).argv.back() == "10.0.1.31");
  const auto& six = std::find_if(started.begin(), started.end(), [](const Command& command) {
                      return command.argv.back() == "2001:db8::9";
                    })->argv;
  CHECK(std::count(six.begin(), six.end(), "8952") == 1);
  CHECK(std::count(six.begin(), six.end(), "2001:db8::1") == 1);
}

TEST_CASE("memlock: the host tier fits in lockable memory", "[C10]") {
  Machine machine("amd-bnxt");
  CHECK(machine.Run("memlock").outcome() == v1::OUTCOME_SKIPPED);
  machine.plan.set_host_tier_bytes(8ull << 30);
  auto result = machine.Run("memlock");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "8MiB may be locked"));
  CHECK(Has(result.hint(), "LimitMEMLOCK"));
  Machine vm("vm");
  vm.plan.set_host_tier_bytes(7ull << 30);
  CHECK(vm.Run("memlock").outcome() == v1::OUTCOME_PASS);  // exactly what the control group leaves
  vm.plan.set_host_tier_bytes((7ull << 30) + 1);
  CHECK(vm.Run("memlock").outcome() == v1::OUTCOME_FAIL);
}

TEST_CASE("disk_space: room for tiers and files", "[C5]") {
  Machine machine("vm");
  machine.plan.set_disk_tier_bytes(1ull << 60);
  auto result = machine.Run("disk_space");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  test::TempDir dir;
  machine.plan.set_disk_tier_bytes(0);
  machine.plan.set_disk_path(dir / "not/yet/there");
  result = machine.Run("disk_space");
  CHECK(Has(result.observed(), dir.path()));  // the nearest directory that exists
  // The job's own files lie in the work directory, and tiers with a path of their own somewhere else again.
  CHECK(Has(result.expected(), "files of the job"));
  CHECK(Has(result.expected(), "below " + machine.context.facts.work_dir));
  v1::DiskPlace* place = machine.plan.add_disk_places();
  place->set_path(dir / "shared");
  place->set_bytes(1ull << 60);
  result = machine.Run("disk_space");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.expected(), "below " + dir.path() + "/shared"));
}

TEST_CASE("tools, executables and secrets are named when missing") {
  Machine machine("vm");
  for (const char* id : {"tools", "executables", "secrets"})
    CHECK(machine.Run(id).outcome() == v1::OUTCOME_SKIPPED);
  machine.plan.add_tools("ib_write_bw");
  auto result = machine.Run("tools");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.hint(), "apt install perftest"));
  machine.plan.add_executables("vllm");
  machine.context.executable_allowed = [](const std::string& name) -> Status {
    return Precondition(name, "not on the allow-list",
                        "add the line 'vllm /opt/vllm/bin/vllm' to executables");
  };
  result = machine.Run("executables");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.hint(), "add the line"));
  machine.context.executable_allowed = [](const std::string&) { return absl::OkStatus(); };
  CHECK(machine.Run("executables").outcome() == v1::OUTCOME_PASS);
  v1::SecretUse* use = machine.plan.add_secrets();
  use->set_secret("hf");
  use->add_programs("vllm");
  CHECK(machine.Run("secrets").outcome() == v1::OUTCOME_FAIL);
  machine.context.secret = [](const std::string&) -> Result<std::string> { return std::string("hf_canary"); };
  result = machine.Run("secrets");
  CHECK(result.outcome() == v1::OUTCOME_PASS);
  CHECK_FALSE(Has(result.ShortDebugString(), "canary"));
  // Here, and given to another program alone; a BMC's login that is none.
  machine.context.secret_given = [](const std::string& secret, const std::string& program) -> Status {
    if (program == "sglang") return absl::OkStatus();
    return Precondition("allow.yaml", "secret '" + secret + "' is not given to '" + program + "'", "add it");
  };
  v1::BmcLogin* bmc = machine.plan.add_bmc_logins();
  bmc->set_login("bmc");
  bmc->set_address("10.9.0.1");
  result = machine.Run("secrets");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "hf, bmc"));
  CHECK(Has(result.evidence(), "hf: secret 'hf' is not given to 'vllm'"));
  CHECK(Has(result.evidence(), "bmc: it is no login of a BMC: it has no ':'"));
  CHECK(Has(result.hint(), "allow.yaml: add it"));
  CHECK(Has(result.hint(), "write user:password"));
  CHECK_FALSE(Has(result.ShortDebugString(), "canary"));
  machine.context.secret = [](const std::string&) -> Result<std::string> { return std::string("user:word"); };
  use->set_programs(0, "sglang");
  CHECK(machine.Run("secrets").outcome() == v1::OUTCOME_PASS);
  machine.context.bmc_given = [](const v1::BmcLogin& asked) -> Status {
    return Precondition("allow.yaml", "not to " + asked.address(), "add it");
  };
  result = machine.Run("secrets");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.evidence(), "bmc: not to 10.9.0.1"));
}

TEST_CASE("ports_free names who holds a port", "[C3]") {
  Machine machine("nvidia-connectx");
  CHECK(machine.Run("ports_free").outcome() == v1::OUTCOME_SKIPPED);
  machine.plan.add_ports(7999);
  machine.plan.add_ports(18080);  // only in TIME_WAIT
  auto result = machine.Run("ports_free");
  CHECK(result.outcome() == v1::OUTCOME_PASS);
  CHECK(Has(result.evidence(), "TIME_WAIT"));
  machine.plan.add_ports(8000);
  machine.plan.add_ports(9100);
  result = machine.Run("ports_free");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "port 8000 is held by pid 900 vllm"));
  CHECK(Has(result.observed(), "port 9100 is held by pid 950 nc (odd) name"));
}

TEST_CASE("public_ports goes by sockets and owners, IPv4 and IPv6, side channels too", "[C11]") {
  Machine machine("nvidia-connectx");
  machine.Addresses({{"ens1np0", {"10.0.0.1"}}});
  auto result = machine.Run("public_ports");
  CHECK(result.outcome() == v1::OUTCOME_PASS);
  CHECK(Has(result.observed(), "no port of the pool is bound yet; no public address"));
  // the engine's own port is private, a worker's side channel is on every IPv6 (and so IPv4) address
  machine.plan.add_ports(8000);
  machine.context.job_pids = [] { return std::set<int>{900, 901, 902}; };
  CHECK(machine.Run("public_ports").outcome() == v1::OUTCOME_PASS);  // still no public address
  // Behind a translated address nothing here shows that the internet reaches it; the pool file says so.
  machine.plan.set_internet(true);
  result = machine.Run("public_ports");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "public: true in the pool file"));
  machine.plan.set_internet(false);
  machine.Addresses({{"ens1np0", {"10.0.0.1"}}, {"eno1", {"8.8.8.8"}}});
  result = machine.Run("public_ports");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "tcp [::]:8100, pid 902"));
  CHECK(Has(result.observed(), "side channel"));
  CHECK(Has(result.evidence(), "10.0.0.1:8000"));
  machine.Addresses({{"eno1", {"2a00:1450::1"}}});
  CHECK(machine.Run("public_ports").outcome() == v1::OUTCOME_FAIL);
  // a stranger's wildcard socket (sshd) is not the pool's
  machine.context.job_pids = [] { return std::set<int>{900}; };
  CHECK(machine.Run("public_ports").outcome() == v1::OUTCOME_PASS);
  // unless its port is in the plan
  machine.Addresses({{"eno1", {"8.8.8.8"}}});
  machine.plan.add_ports(22);
  CHECK(machine.Run("public_ports").outcome() == v1::OUTCOME_FAIL);
  // a pool on the loopback interface binds nothing else
  Machine local("nvidia-connectx");
  local.plan.set_loopback_only(true);
  local.context.job_pids = [] { return std::set<int>{900}; };
  CHECK(Has(local.Run("public_ports").observed(), "not on the loopback interface"));
}

TEST_CASE("secrets_in_ps names process and kind, never the value", "[C12]") {
  Machine machine("nvidia-connectx");
  CHECK(machine.Run("secrets_in_ps").outcome() == v1::OUTCOME_PASS);
  test::TempDir dir;
  REQUIRE(MakeDirs(dir / "proc/77").ok());
  REQUIRE(AtomicWriteFile(dir / "proc/77/cmdline",
                          std::string("vllm\0--api-key\0topsecret-value\0--x\0CANARY123\0", 46))
              .ok());
  REQUIRE(AtomicWriteFile(dir / "proc/77/comm", "vllm\n").ok());
  machine.context.facts.root = dir.path();
  machine.context.all_secret_values = [] { return std::vector<std::string>{"CANARY123"}; };
  const auto result = machine.Run("secrets_in_ps");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "pid 77 (vllm) argument 2: --api-key, 15 characters"));
  CHECK(Has(result.observed(), "argument 4: the value of a secret"));
  CHECK_FALSE(Has(result.ShortDebugString(), "topsecret"));
  CHECK_FALSE(Has(result.ShortDebugString(), "CANARY"));
  machine.context.facts.root = dir / "empty";
  CHECK(machine.Run("secrets_in_ps").outcome() == v1::OUTCOME_NOT_MEASURED);
}

TEST_CASE("leftovers: containers of lost jobs and of others' engines are named", "[C27]") {
  test::TempDir dir;
  Machine machine("vm");
  machine.context.facts.root = dir.path();
  // As docker's own formatter prints it.
  machine.spawner.Add(
      "docker",
      "poolmark-20260101-000000-aaaa-e1-engine\tvllm/vllm-openai@sha256:ab\tExited (137) 2 days ago\n", 0, "",
      "label=poolmark.run");
  machine.spawner.Add("docker",
                      "cache\tredis:7\tUp 3 hours\nweb\tnginx:1\tUp 3 hours\n"
                      "poolmark-20260101-000000-aaaa-e1-engine\tvllm/vllm-openai@sha256:ab\tUp\n\tno line\n");
  machine.spawner.Add("podman", "", 125, "cannot connect to Podman");
  const auto result = machine.Run("leftovers");
  CHECK(result.outcome() == v1::OUTCOME_NOTE);
  CHECK(result.observed() ==
        "not ours: containers cache, poolmark-20260101-000000-aaaa-e1-engine; 1 belongs to jobs of another "
        "agent");
  CHECK(Has(result.evidence(),
            "container poolmark-20260101-000000-aaaa-e1-engine (vllm/vllm-openai@sha256:ab, "
            "Exited (137) 2 days ago) with the label of a job that no ledger here names"));
  CHECK(Has(result.evidence(), "container cache (redis:7, Up 3 hours)"));
  CHECK(Has(result.evidence(), "containers not seen: podman exited with 125: cannot connect to Podman"));
  CHECK_FALSE(Has(result.observed(), "web"));
}

TEST_CASE("leftovers: ours fail, strangers are named", "[C27]") {
  Machine machine("nvidia-connectx");
  auto result = machine.Run("leftovers");
  CHECK(result.outcome() == v1::OUTCOME_NOTE);  // somebody's vllm
  CHECK(Has(result.observed(), "vllm (pid 900)"));
  CHECK(Has(result.evidence(), "not ours: pid 900 (vllm)"));
  machine.context.job_pids = [] { return std::set<int>{900, 901, 902}; };
  CHECK(machine.Run("leftovers").outcome() == v1::OUTCOME_PASS);
  machine.context.ledger_leftovers = [] {
    return std::vector<std::string>{"directory /nvme/poolmark/job-1"};
  };
  result = machine.Run("leftovers");
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.hint(), "poolmark machine clear n1"));
  test::TempDir dir;
  REQUIRE(MakeDirs(dir / "dev/shm").ok());
  REQUIRE(MakeDirs(dir / "tmp/vllm_dist_1").ok());
  REQUIRE(AtomicWriteFile(dir / "dev/shm/lmcache_segment", "").ok());
  REQUIRE(AtomicWriteFile(dir / "dev/shm/other", "").ok());
  Machine strangers("vm");
  strangers.context.facts.root = dir.path();
  result = strangers.Run("leftovers");
  CHECK(result.outcome() == v1::OUTCOME_NOTE);
  CHECK(Has(result.observed(), "/dev/shm/lmcache_segment"));
  CHECK(Has(result.observed(), "/tmp/vllm_dist_1"));
  CHECK_FALSE(Has(result.observed(), "other"));
  // Another cluster's job on the same kernel: a line, however many processes it has; each is in the evidence.
  for (int pid = 300; pid < 340; ++pid) {
    const std::string proc = dir / ("proc/" + std::to_string(pid));
    REQUIRE(MakeDirs(proc).ok());
    REQUIRE(AtomicWriteFile(proc + "/cmdline", std::string("poolmark-sim\0engine\0", 20)).ok());
    REQUIRE(AtomicWriteFile(proc + "/comm", "poolmark-sim\n").ok());
    REQUIRE(AtomicWriteFile(proc + "/environ", std::string("A=1\0POOLMARK_RUN=other-e1\0", 26)).ok());
  }
  result = strangers.Run("leftovers");
  INFO(result.observed());
  CHECK(Has(result.observed(), "poolmark-sim (40: pids 300, 301, …)"));
  CHECK(Has(result.observed(), "; 40 belong to jobs of another agent"));
  CHECK(result.observed().size() < 250);
  CHECK(Has(result.evidence(), "pid 339 (poolmark-sim) with the mark of a job that no ledger here names"));
}
