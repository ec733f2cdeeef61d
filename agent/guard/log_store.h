// A process's output on disk: segments of fixed size, of which the first (the head, where start-up errors
// are) and the newest are kept. A byte's place is its offset in the whole stream, so a reader can go on
// where it was and sees what was rotated away. The writer never blocks its process for lack of disk: what
// cannot be written is counted. Not thread-safe; readers may be other processes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guard/fault.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::guard {

struct LogLimits {
  uint64_t segment_bytes = 10u << 20;
  unsigned segments = 10;  // at least 2
};

class LogWriter {
 public:
  // The directory must exist. Starts behind what is there already (a process started again).
  static Fault Open(const std::string& directory, LogLimits limits, LogWriter* writer);
  void Write(std::string_view bytes);
  uint64_t offset() const { return offset_; }
  uint64_t unwritten_bytes() const { return unwritten_; }

 private:
  bool OpenSegment();

  std::string directory_;
  LogLimits limits_;
  uint64_t offset_ = 0;
  uint64_t unwritten_ = 0;
  UniqueFd segment_;
};

struct LogPiece {
  uint64_t offset = 0;  // of the first byte
  std::string data;
  uint64_t lost_bytes = 0;  // between the offset asked for and `offset`
};

// Reads another process's log; opens files afresh each time.
class LogReader {
 public:
  explicit LogReader(std::string directory) : directory_(std::move(directory)) {}
  // One past the last byte written.
  uint64_t End() const;
  // At most `limit` bytes from `offset` on; empty at the end.
  LogPiece Read(uint64_t offset, size_t limit) const;

 private:
  std::string directory_;
};

}  // namespace poolmark::guard
