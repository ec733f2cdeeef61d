// Room on the disk that only the store can take, so that a job's end and its reasons are stored when the disk
// is full: free pages within the database file, and a write-ahead log that keeps its size and is overwritten
// in place. It holds on file systems that overwrite in place (ext4, xfs, tmpfs); one that writes elsewhere
// (btrfs, zfs) may refuse all the same. Not thread-safe: used under the store's mutex.
#pragma once
#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::controller {

class Database;

class Reserve {
 public:
  // A transition with its event row takes some 10 KiB of the log, which starts anew every 4 MiB, and 1 KiB of
  // the file: enough for the ends of hundreds of jobs.
  static constexpr int64_t kFileBytes = 4 << 20;
  static constexpr int64_t kLogBytes = 5 << 20;

  // Fills it up when less than half is left; a failure (the disk is full) is tried again after a minute.
  // Outside of any transaction.
  Status Keep(Database* db, const std::string& file, Nanoseconds now);

 private:
  Nanoseconds failed_{0};  // 0: the last try went well
};

}  // namespace poolmark::controller
