#include <sched.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <thread>

#include "common/load/thread_class.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::load;

namespace {

constexpr int64_t kOneSecond = 1'000'000'000;

cpu_set_t Allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

// Runs on a thread of its own: what it may run on is changed.
template <class Body>
void OnOwnThread(Body body) {
  std::thread(body).join();
}

}  // namespace

TEST_CASE("a loop that waits leaves the processor, and stays away until it waits elsewhere") {
  const poolmark::test::TempDir dir;
  const std::string path = dir / "schedstat";
  const auto waited = [&](const char* nanoseconds) {
    std::ofstream(path) << "1000 " << nanoseconds << " 3\n";  // the same file, as the kernel's is
  };
  waited("0");
  OnOwnThread([&] {
    const cpu_set_t all = Allowed();
    ProcessorWatch watch(0, 1, path.c_str());
    CHECK(watch.WaitedNanoseconds() == 0);
    CHECK_FALSE(watch.Look(0));  // the first look has nothing to compare with
    waited("1000000");
    CHECK_FALSE(watch.Look(kOneSecond));  // 0.1 %
    waited("11000000");
    CHECK_FALSE(watch.Look(kOneSecond + 1'000'000));  // too soon to say
    const bool moved = watch.Look(2 * kOneSecond);    // 1 %
    if (CPU_COUNT(&all) < 2) {
      CHECK_FALSE(moved);
      return;
    }
    CHECK(moved);
    const cpu_set_t first = Allowed();
    CHECK(CPU_COUNT(&first) == CPU_COUNT(&all) - 1);
    CHECK(CPU_ISSET(sched_getcpu(), &first));
    CHECK_FALSE(watch.Look(3 * kOneSecond));
    const cpu_set_t still = Allowed();
    CHECK(CPU_EQUAL(&first, &still));
    const int here = sched_getcpu();
    waited("999000000");
    CHECK(watch.Look(4 * kOneSecond));
    const cpu_set_t second = Allowed();
    CHECK(CPU_COUNT(&second) == CPU_COUNT(&all) - 1);
    if (CPU_COUNT(&all) == 2) CHECK_FALSE(CPU_ISSET(here, &second));
  });
}

TEST_CASE("loops that are as many as the processors stay where they are") {
  const poolmark::test::TempDir dir;
  const std::string path = dir / "schedstat";
  OnOwnThread([&] {
    const cpu_set_t all = Allowed();
    const auto as_many = static_cast<uint32_t>(CPU_COUNT(&all));
    std::ofstream(path) << "1000 0 3\n";
    ProcessorWatch watch(0, as_many, path.c_str());
    CHECK_FALSE(watch.Look(0));
    std::ofstream(path) << "1000 900000000 3\n";
    CHECK_FALSE(watch.Look(kOneSecond));
    const cpu_set_t after = Allowed();
    CHECK(CPU_EQUAL(&all, &after));
  });
}

TEST_CASE("loops that wait for each other look at different times") {
  const poolmark::test::TempDir dir;
  const std::string path = dir / "schedstat";
  for (const uint32_t index : {0u, 4u}) {
    INFO(index);
    OnOwnThread([&] {
      const cpu_set_t all = Allowed();
      if (CPU_COUNT(&all) < 2) return;
      std::ofstream(path) << "1000 0 3\n";
      ProcessorWatch watch(index, 1, path.c_str());
      CHECK_FALSE(watch.Look(0));
      std::ofstream(path) << "1000 20000000 3\n";
      CHECK(watch.Look(25'000'000) == (index == 0));
      CHECK(watch.Look(30'000'000) == (index == 4));
    });
  }
}

TEST_CASE("a kernel that tells no waiting changes nothing") {
  const poolmark::test::TempDir dir;
  OnOwnThread([&] {
    const cpu_set_t all = Allowed();
    for (const char* text : {"", "7", "7\n", "no numbers at all\n"}) {
      INFO(text);
      std::ofstream(dir / "schedstat") << text;
      ProcessorWatch watch(0, 1, (dir / "schedstat").c_str());
      CHECK_FALSE(watch.Look(0));
      CHECK_FALSE(watch.Look(kOneSecond));
    }
    ProcessorWatch none(0, 1, (dir / "missing").c_str());
    CHECK_FALSE(none.WaitedNanoseconds().has_value());
    CHECK_FALSE(none.Look(kOneSecond));
    const cpu_set_t after = Allowed();
    CHECK(CPU_EQUAL(&all, &after));
  });
}
