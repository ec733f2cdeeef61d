#include "agent/facts/gpus.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "tests/support/fake_spawner.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::agent;

namespace {
std::string Vendor(const std::string& name) {
  return *ReadFile(test::Source("tests/data/vendor/" + name));
}
}  // namespace

TEST_CASE("nvidia-smi's list", "[C7]") {
  const auto gpus = ParseNvidiaSmi(Vendor("nvidia-smi-h200.csv"));
  REQUIRE(gpus.ok());
  REQUIRE(gpus->size() == 2);
  CHECK((*gpus)[1].model == "NVIDIA H200");
  CHECK((*gpus)[1].memory_bytes == 143771ull << 20);
  CHECK((*gpus)[1].driver == "550.127.08");
  CHECK_FALSE((*gpus)[1].mig);
  const auto odd = ParseNvidiaSmi(Vendor("nvidia-smi-odd.csv"));
  REQUIRE(odd.ok());
  CHECK((*odd)[0].memory_bytes == 0);  // [N/A]: shares the machine's memory
  CHECK(ParseNvidiaSmi("")->empty());
}

TEST_CASE("numbers of a GPU tool that no GPU has are no numbers", "[C7]") {
  for (const char* amount : {"-81559", "1e30", "[N/A]"}) {
    INFO(amount);
    const auto gpus =
        ParseNvidiaSmi(std::string("0, GPU-a, NVIDIA H200, ") + amount + ", 550, 0, Disabled\n");
    REQUIRE(gpus.ok());
    CHECK((*gpus)[0].memory_bytes == 0);
    const std::string card =
        std::string(R"json({"card0": {"Card Series": "MI300X", "VRAM Total Memory (B)": ")json") + amount +
        "\"}}";
    REQUIRE(ParseRocmSmi(card).ok());
    CHECK((*ParseRocmSmi(card))[0].memory_bytes == 0);
  }
  for (const char* index : {"-1", "1e30", "4294967296"}) {
    INFO(index);
    const std::string list = std::string(R"([{"gpu": )") + index + R"(, "asic": {"market_name": "MI300X"}}])";
    REQUIRE(ParseAmdSmi(list).ok());
    CHECK((*ParseAmdSmi(list))[0].index == 0);  // its place
    REQUIRE(ParseAmdSmiReadings(list).ok());
    CHECK((*ParseAmdSmiReadings(list))[0].index == 0);
  }
  CHECK_FALSE(ParseNvidiaSmi("4294967296, GPU-a, NVIDIA H200, 1, 550, 0, Disabled\n").ok());
  CHECK(ParseRocmSmi(R"({"card4294967296": {"Card Series": "MI300X"}})")->empty());
}

TEST_CASE("what nvidia-smi must not answer", "[C7]") {
  for (const char* text : {"No devices were found\n", "0, GPU-a\n", "x, a, b, 1, 2, 3, 4\n",
                           "0, GPU-a, [Unknown Error], 1, 2, 3, Disabled\n"}) {
    INFO(text);
    CHECK_FALSE(ParseNvidiaSmi(text).ok());
  }
}

TEST_CASE("readings that a tool refuses are absent, not zero", "[F22]") {
  const auto readings = ParseNvidiaSmiReadings(Vendor("nvidia-smi-readings.csv"));
  REQUIRE(readings.ok());
  CHECK((*readings)[0].utilization_ratio == Approx(0.87));
  CHECK((*readings)[0].power_watts == Approx(612.34));
  CHECK_FALSE((*readings)[1].utilization_ratio);
  CHECK_FALSE((*readings)[1].power_watts);
  const auto amd = ParseAmdSmiReadings(Vendor("amd-smi-readings.json"));
  REQUIRE(amd.ok());
  CHECK((*amd)[0].power_watts == Approx(148));  // watts, not kilowatts
  CHECK((*amd)[0].utilization_ratio == Approx(0.55));
  CHECK((*amd)[0].memory_used_bytes == Approx(1024.0 * 1048576));
  CHECK_FALSE((*amd)[1].power_watts);
  CHECK_FALSE((*amd)[1].utilization_ratio);
}

TEST_CASE("amd-smi in its three layouts, and rocm-smi", "[C7]") {
  const auto wrapped = ParseAmdSmi(Vendor("amd-smi-gpu_data.json"));
  REQUIRE(wrapped.ok());
  REQUIRE(wrapped->size() == 2);
  CHECK((*wrapped)[1].model == "AMD Instinct MI300X");
  CHECK((*wrapped)[1].memory_bytes == 196592ull << 20);
  const auto array = ParseAmdSmi(Vendor("amd-smi-array.json"));
  REQUIRE(array.ok());
  CHECK((*array)[0].memory_bytes == 196592ull << 20);
  const auto object = ParseAmdSmi(Vendor("amd-smi-object.json"));
  REQUIRE(object.ok());
  CHECK((*object)[0].model == "gfx942");
  const auto rocm = ParseRocmSmi(Vendor("rocm-smi.json"));
  REQUIRE(rocm.ok());
  REQUIRE(rocm->size() == 2);
  CHECK((*rocm)[1].model == "AMD Instinct MI300X");  // "Card series" and "Card Series"
  CHECK((*rocm)[0].memory_bytes == 206141652992);
  CHECK((*rocm)[0].driver == "6.10.5");
}

TEST_CASE("hostile answers of the AMD tools are errors") {
  for (const char* text : {"", "error", "[", "{}", "[1]", "[{}]", "{\"gpu_data\": 3}", "[{\"asic\": {}}]",
                           "[{\"asic\": \"N/A\"}]"}) {
    INFO(text);
    CHECK_FALSE(ParseAmdSmi(text).ok());
  }
  for (const char* text : {"", "{", "[]", "{\"card0\": {}}"}) {
    INFO(text);
    CHECK_FALSE(ParseRocmSmi(text).ok());
  }
  CHECK_FALSE(ParseAmdSmi(std::string(100000, '[')).ok());
}

TEST_CASE("vendor tools are asked in turn; a tool that fails says why", "[C7]") {
  test::FakeSpawner spawner;
  spawner.Add("nvidia-smi", "", 9,
              "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.");
  auto tools = ReadGpus(spawner, test::Root("nvidia-connectx"), std::chrono::seconds(1));
  REQUIRE(tools.size() == 1);
  CHECK(tools[0].failure.find("exited with 9") != std::string::npos);
  CHECK(tools[0].gpus.empty());
  CHECK(GpusOnPci(test::Root("nvidia-connectx")).size() == 2);

  test::FakeSpawner good;
  good.Add("nvidia-smi", Vendor("nvidia-smi-h200.csv"));
  tools = ReadGpus(good, test::Root("nvidia-connectx"), std::chrono::seconds(1));
  REQUIRE(tools.size() == 1);
  CHECK(tools[0].version == "550.127.08");
  CHECK(tools[0].gpus[1].numa_node == 1u);

  test::FakeSpawner rocm_only;
  rocm_only.Add("amd-smi", "", 1, "Traceback");
  rocm_only.Add("rocm-smi", Vendor("rocm-smi.json"));
  tools = ReadGpus(rocm_only, test::Root("amd-bnxt"), std::chrono::seconds(1));
  REQUIRE(tools.size() == 1);
  CHECK(tools[0].name == "rocm-smi");
  CHECK(tools[0].gpus[1].numa_node == 1u);

  test::FakeSpawner none;
  CHECK(ReadGpus(none, test::Root("vm"), std::chrono::seconds(1)).empty());
  CHECK(GpusOnPci(test::Root("vm")).empty());

  test::FakeSpawner hanging;
  hanging.Add("nvidia-smi", "", 0, "", "", true);
  tools = ReadGpus(hanging, test::Root("vm"), std::chrono::milliseconds(1));
  REQUIRE(tools.size() == 1);
  CHECK(tools[0].failure.find("did not end within 1ms") != std::string::npos);
  CHECK(tools[0].hangs);
}
