// Files of JSON Lines compressed with zstd, written as a stream and read line by line. Behind it: libzstd.
// Not thread-safe per object.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark {

// Writes <path>.tmp; Finish() syncs and renames. Without Finish() the .tmp stays and is never read.
// Flush() ends a block, so that what was written so far can be recovered from the .tmp after a crash.
class ZstdWriter {
 public:
  static Result<std::unique_ptr<ZstdWriter>> Create(const std::string& path, int level = 3);
  ~ZstdWriter();
  Status Write(std::string_view bytes);
  Status Flush();
  Status Finish();
  // Instead, after an error: what reached the file stays under that name, readable up to its torn end.
  Status KeepPartial(const std::string& path);

 private:
  ZstdWriter();
  struct State;
  std::unique_ptr<State> state_;
};

// Reads .zst or plain regular files; anything else, such as a pipe, is refused at once. Lines longer than
// `max_line` and streams that end early are errors that name file and line; everything before them was
// already returned.
class LineReader {
 public:
  static Result<std::unique_ptr<LineReader>> Open(const std::string& path, size_t max_line = 64u << 20);
  ~LineReader();
  // False at the end. The line has no line end.
  Result<bool> Next(std::string* line);
  uint64_t line_number() const;

 private:
  LineReader();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark
