// A power cut under the store: a file system that is shut down without writing its log back, as when the
// power goes. What a call has acknowledged is there afterwards.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "controller/jobs/store.h"
#include "tests/support/temp_dir.h"

namespace poolmark::test {
namespace {

constexpr unsigned long kShutdown = 0x8004587d;  // EXT4_IOC_SHUTDOWN
constexpr uint32_t kNoLogFlush = 2;

bool Run(const std::string& command) {
  return WEXITSTATUS(std::system((command + " >/dev/null 2>&1").c_str())) == 0;
}

// An ext4 in a file. Needs the right to mount, and loop devices.
class Ext4 {
 public:
  explicit Ext4(const TempDir& dir) : image_(dir / "image"), path_(dir / "disk") {
    REQUIRE(MakeDirs(path_, 0700).ok());
    usable_ = Run("truncate -s 64M " + image_) && Run("mkfs.ext4 -q -F -m 0 " + image_) && Mount();
  }
  ~Ext4() {
    if (usable_) umount2(path_.c_str(), MNT_DETACH);
  }
  Ext4(const Ext4&) = delete;
  Ext4& operator=(const Ext4&) = delete;
  bool usable() const { return usable_; }
  const std::string& path() const { return path_; }
  bool Cut() const {
    const int fd = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool cut = fd >= 0 && ioctl(fd, kShutdown, &kNoLogFlush) == 0;
    if (fd >= 0) close(fd);
    return cut;
  }
  bool Mount() const { return Run("mount -o loop " + image_ + " " + path_); }
  bool Unmount() const { return umount2(path_.c_str(), 0) == 0; }

 private:
  const std::string image_, path_;
  bool usable_ = false;
};

}  // namespace

TEST_CASE("what the store acknowledged survives a power cut", "[live]") {
  TempDir dir;
  Ext4 disk(dir);
  if (!disk.usable()) {
    WARN("skipped: no right to mount, or no loop device");
    return;
  }
  const std::string state = disk.path() + "/state";
  auto opened = controller::Store::Open(state, &RealClock());
  INFO(opened.status());
  REQUIRE(opened.ok());
  auto store = std::move(*opened);
  std::vector<std::string> jobs;
  for (int i = 0; i < 20; ++i) {
    auto job = store->Insert({}, "ada", "digest", {}, 5);
    REQUIRE(job.ok());
    jobs.push_back(job->id());
    auto planned = store->Apply(job->id(), controller::JobEventKind::kPlanAccepted, {});
    REQUIRE(planned.ok());
    REQUIRE(planned->has_value());
  }
  const uint64_t epoch = store->controller_epoch();
  if (!disk.Cut()) {
    WARN("skipped: this kernel's ext4 cannot be shut down");
    return;
  }
  // Nothing more is acknowledged.
  CHECK_FALSE(store->Apply(jobs.front(), controller::JobEventKind::kCancel, {}).ok());
  store.reset();
  REQUIRE(disk.Unmount());
  REQUIRE(disk.Mount());
  auto again = controller::Store::Open(state, &RealClock());
  INFO(again.status());
  REQUIRE(again.ok());
  CHECK_FALSE((*again)->recovered());
  CHECK((*again)->controller_epoch() > epoch);
  for (const std::string& id : jobs) {
    auto job = (*again)->Get(id);
    INFO(id << " " << job.status());
    REQUIRE(job.ok());
    CHECK(job->job.state() == v1::JOB_STATE_QUEUED);
    CHECK((*again)->Events(id, 0, 10)->size() == 2);
  }
  again->reset();
}

}  // namespace poolmark::test
