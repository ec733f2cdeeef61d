#include "controller/steps/room.h"

#include <sys/statvfs.h>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace poolmark::controller {

namespace {

Status RoomFor(const std::string& directory, uint64_t bytes, const char* who) {
  struct statvfs disk {};
  // What cannot be asked is no refusal: the first write will tell.
  if (statvfs(directory.c_str(), &disk) != 0) return absl::OkStatus();
  const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free >= bytes) return absl::OkStatus();
  return ToStatus(Error{absl::StatusCode::kResourceExhausted, "disk_full", directory,
                        absl::StrCat("the controller's disk has ", FormatBytes(free), " left, ", who,
                                     " needs ", FormatBytes(bytes)),
                        "free space on it, or delete finished jobs: poolmark delete JOB"});
}

}  // namespace

Status RoomForJob(const std::string& directory) {
  return RoomFor(directory, kRoomForJob, "a job");
}

Status RoomForFile(const std::string& directory, uint64_t bytes) {
  return RoomFor(directory, kRoomForJob + bytes, "a file of a machine");
}

}  // namespace poolmark::controller
