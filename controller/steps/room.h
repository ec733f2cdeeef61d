// Whether the controller's disk has room for another job, or for what a machine sends. Thread-safe.
#pragma once
#include <string>

#include "common/base/result.h"

namespace poolmark::controller {

// What a small job's files take, with some to spare.
inline constexpr uint64_t kRoomForJob = 32u << 20;

// RESOURCE_EXHAUSTED "disk_full" when the file system of `directory` has less than that.
Status RoomForJob(const std::string& directory);
// The same for `bytes` beside that.
Status RoomForFile(const std::string& directory, uint64_t bytes);

}  // namespace poolmark::controller
