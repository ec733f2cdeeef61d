#include "cli/commands/quality_support.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "common/base/errors.h"
#include "common/base/files.h"

namespace poolmark::cli {
namespace {

void Say() {
  std::fputs("\nstopping; once more ends at once\n", stderr);
}

int CodeOf(const Status& status) {
  if (absl::IsCancelled(status)) return 130;
  return absl::IsInternal(status) || absl::IsUnknown(status) ? 70 : 2;
}

}  // namespace

int Refuse(const Status& status) {
  std::fprintf(stderr, "poolmark: %s\n", Printable(std::string(status.message()), true).c_str());
  return CodeOf(status);
}

int Refuse(const Status& status, const std::string& output) {
  if (output != "json") return Refuse(status);
  WriteErr(ErrorText(SplitErrors(status), Format::kJson));
  return CodeOf(status);
}

Result<std::string> ApiKey(const std::string& file) {
  if (file.empty()) {
    const char* key = std::getenv("OPENAI_API_KEY");
    return std::string(key == nullptr ? "" : key);
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(file, 64 << 10));
  std::string key = text.substr(0, text.find_first_of("\r\n"));
  if (key.empty()) return InvalidInput(file, "holds no key in its first line");
  return key;
}

StopMessage::StopMessage(std::stop_token stop) : callback_(std::move(stop), Say) {}

void SleepUnlessStopped(const std::stop_token& stop, Nanoseconds wait) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, wait, [] { return false; });
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fprintf(stderr, "\n");
}

void ProgressLine::Show(const std::string& text, bool last) {
  if (terminal_) {
    std::fprintf(stderr, "\r\x1b[K%s%s", Printable(text).c_str(), last ? "\n" : "");
    open_ = !last;
    return;
  }
  Nanoseconds now = RealClock().Steady();
  if (!last && now - shown_ < std::chrono::seconds(10)) return;
  shown_ = now;
  std::fprintf(stderr, "%s\n", Printable(text).c_str());
}

void ProgressLine::Note(const std::string& text) {
  std::fprintf(stderr, "%s%s\n", open_ ? "\r\x1b[K" : "", Printable(text).c_str());
  open_ = false;
}

}  // namespace poolmark::cli
