// What the quality commands share: refusals, keys, Ctrl-C, the progress line.
#pragma once
#include <stop_token>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::cli {

// Prints the error, which may quote servers and files (Printable); 70 for a fault of this program, 130 for an
// interrupt, else 2.
int Refuse(const Status& status);
// The same, as JSON where `output` is "json" (docs/cli.md).
int Refuse(const Status& status, const std::string& output);

// The first line of the file, or OPENAI_API_KEY, or "".
Result<std::string> ApiKey(const std::string& file);

// Says on stderr that the program stops, once it is asked to.
class StopMessage {
 public:
  explicit StopMessage(std::stop_token stop);

 private:
  std::stop_callback<void (*)()> callback_;
};

// Returns early when a stop is requested.
void SleepUnlessStopped(const std::stop_token& stop, Nanoseconds wait);

// One line on stderr that is rewritten on a terminal; elsewhere a line every ten seconds. What others wrote
// into it is shown, not obeyed. Not thread-safe.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void Show(const std::string& text, bool last);
  void Note(const std::string& text);

 private:
  bool terminal_;
  bool open_ = false;  // a rewritten line stands unfinished
  Nanoseconds shown_{0};
};

}  // namespace poolmark::cli
