// A process that cannot be killed (here frozen by a cgroup v1 freezer, as one is that hangs in the kernel):
// the others are torn down all the same, and it is named.
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"
#include "tests/component/guard/guard_fixture.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {

class Freezer {
 public:
  Freezer() : path_("/sys/fs/cgroup/freezer/poolmark-test-" + std::to_string(getpid())) {
    usable_ = FileExists("/sys/fs/cgroup/freezer/cgroup.procs") && mkdir(path_.c_str(), 0700) == 0;
  }
  ~Freezer() {
    if (!usable_) return;
    Thaw();
    WaitFor([&] { return rmdir(path_.c_str()) == 0; });
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;
  bool usable() const { return usable_; }
  bool Freeze(int pid) const {
    return Put("cgroup.procs", std::to_string(pid)) && Put("freezer.state", "FROZEN") &&
           WaitFor([&] { return ReadFile(path_ + "/freezer.state", 100).value_or("") == "FROZEN\n"; });
  }
  void Thaw() const { (void)Put("freezer.state", "THAWED"); }

 private:
  bool Put(const std::string& name, const std::string& text) const {
    FILE* file = fopen((path_ + "/" + name).c_str(), "w");
    if (file == nullptr) return false;
    const bool written = fputs(text.c_str(), file) >= 0;
    return fclose(file) == 0 && written;
  }
  const std::string path_;
  bool usable_ = false;
};

}  // namespace

TEST_CASE("one process that cannot be killed keeps no other alive, and is named", "[C25][live]") {
  Freezer freezer;
  if (!freezer.usable()) {
    WARN("skipped: no freezer of cgroup v1 here");
    return;
  }
  GuardFixture fixture([](process::GuardStart* start) { start->kill_wait = std::chrono::seconds(2); });
  const Record first = fixture.StartShell("engine-0", "exec sleep 1000");
  const Record stuck = fixture.StartShell("engine-1", "exec sleep 1000");
  const Record last = fixture.StartShell("engine-2", "exec sleep 1000");
  const auto pid = [](const Record& record) { return static_cast<int>(*record.Signed("pid")); };
  REQUIRE(freezer.Freeze(pid(stuck)));
  auto events = fixture.TearDown(std::chrono::seconds(1));
  CHECK_FALSE(GuardFixture::Clean(events));
  CHECK_FALSE(ProcessExists(pid(first)));
  CHECK_FALSE(ProcessExists(pid(last)));
  CHECK(ProcessExists(pid(stuck)));
  bool named = false;
  for (const Record& item : GuardFixture::Items(events, "process")) {
    INFO(item.Get("name") << " " << item.Get("state"));
    const bool gone = item.Get("state") == "gone";
    if (item.Get("name").find("engine-1") != std::string::npos) named = named || !gone;
  }
  CHECK(named);
  freezer.Thaw();
  CHECK(WaitFor([&] { return !ProcessExists(pid(stuck)); }));
}
