#include "agent/facts/facts.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "tests/support/fake_spawner.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::agent;

namespace {
FactsContext At(const std::string& root, Spawner* spawner) {
  FactsContext context;
  context.root = test::Source("tests/data/roots/" + root);
  context.spawner = spawner;
  context.addresses = [] {
    return std::map<std::string, std::vector<std::string>>{{"ens1np0", {"10.0.0.1"}}};
  };
  return context;
}
}  // namespace

TEST_CASE("facts of an NVIDIA machine with ConnectX cards", "[C7][C8][J3]") {
  test::FakeSpawner spawner;
  spawner.Add("nvidia-smi", *ReadFile(test::Source("tests/data/vendor/nvidia-smi-h200.csv")));
  spawner.Add("ibv_devinfo", *ReadFile(test::Source("tests/data/vendor/ibv_devinfo.txt")));
  std::vector<std::string> notes;
  const v1::Facts facts = ReadFacts(At("nvidia-connectx", &spawner), &notes);
  CHECK(facts.hostname() == "gpu1");
  CHECK(facts.cpus() == 4);
  CHECK(facts.numa_nodes() == 2);
  CHECK(facts.memory_bytes() == 2113405952ull * 1024);
  CHECK_FALSE(facts.has_memlock_bytes());  // unlimited
  CHECK(facts.nofile() == 1048576);
  CHECK(facts.gpus_size() == 2);
  CHECK(facts.gpu_tool() == "nvidia-smi 550.127.08");
  REQUIRE(facts.rdma_ports_size() == 2);
  CHECK(facts.rdma_ports(0).active_mtu() == 4096);
  CHECK(facts.used_ports_size() == 5);
  REQUIRE(facts.nics_size() == 3);
  CHECK(facts.nics(1).address() == "10.0.0.1");
}

TEST_CASE("facts of an AMD machine with Broadcom cards", "[C7][C8][J3]") {
  test::FakeSpawner spawner;
  spawner.Add("amd-smi", *ReadFile(test::Source("tests/data/vendor/amd-smi-gpu_data.json")));
  const v1::Facts facts = ReadFacts(At("amd-bnxt", &spawner));
  CHECK(facts.gpus_size() == 2);
  CHECK(facts.gpu_tool() == "amd-smi 6.10.5");
  CHECK(facts.memlock_bytes() == 8388608);
  CHECK(facts.memory_lockable_bytes() == 8388608);
  REQUIRE(facts.rdma_ports_size() == 1);
  CHECK(facts.rdma_ports(0).active_mtu() == 0);  // no verbs tool: not known
}

TEST_CASE("facts of a machine without RDMA and GPUs", "[C7][C8]") {
  test::FakeSpawner spawner;
  const v1::Facts facts = ReadFacts(At("vm", &spawner));
  CHECK(facts.gpus_size() == 0);
  CHECK(facts.gpu_tool().empty());
  CHECK(facts.rdma_ports_size() == 0);
  CHECK(facts.used_ports_size() == 1);
}

TEST_CASE("a GPU that no tool answers for is named in the notes", "[C7]") {
  test::FakeSpawner spawner;
  std::vector<std::string> notes;
  const v1::Facts facts = ReadFacts(At("amd-bnxt", &spawner), &notes);
  CHECK(facts.gpus_size() == 0);
  bool named = false;
  for (const std::string& note : notes) named |= note.find("2 GPUs on the PCI bus") != std::string::npos;
  CHECK(named);
}

TEST_CASE("facts of this very machine", "[live]") {
  const auto spawner = MakeSpawner();
  test::TempDir dir;
  FactsContext context;
  context.spawner = spawner.get();
  context.work_dir = dir.path();
  const v1::Facts facts = ReadFacts(context);
  CHECK_FALSE(facts.hostname().empty());
  CHECK(facts.boot_id().size() == 36);
  CHECK(facts.cpus() >= 1);
  CHECK(facts.memory_bytes() > facts.memory_available_bytes());
  CHECK(facts.memory_available_bytes() > 0);
  CHECK(facts.work_dir_free_bytes() > 0);
  CHECK(facts.nics_size() >= 1);
}
