// A full disk under the ledger and under the logs.
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"
#include "tests/component/guard/guard_fixture.h"
#include "tests/support/small_disk.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {}  // namespace

TEST_CASE("when the ledger cannot be written nothing is started, and tear-down still works", "[C25][live]") {
  TempDir dir;
  SmallDisk disk(dir / "run", "256k");
  if (!disk.mounted()) {
    WARN("skipped: no right to mount a file system here");
    return;
  }
  GuardFixture fixture([&](process::GuardStart* start) { start->run_directory = disk.path(); });
  Record engine =
      fixture.StartShell("engine-0", "setsid sleep 1000 & while :; do echo log line; sleep 0.01; done");
  disk.Fill();
  // Until the room in the ledger's last page is used up, small records still fit.
  Status refused = absl::OkStatus();
  for (int i = 0; i < 200 && refused.ok(); ++i) {
    refused =
        fixture.client().Ask(fixture.StartRequest("more-" + std::to_string(i), "exec sleep 1000")).status();
  }
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.message()).find("No space left on device") != std::string::npos);
  // The engine that runs is not disturbed by a log that cannot be written.
  CHECK(fixture.Status("engine-0").Get("running") == "1");
  auto events = fixture.TearDown();
  CHECK(GuardFixture::Clean(events));
  CHECK_FALSE(ProcessExists(static_cast<int>(*engine.Signed("pid"))));
  CHECK_FALSE(FileExists(fixture.work_dir()));
}
