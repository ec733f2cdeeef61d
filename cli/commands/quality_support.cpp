#include "cli/commands/quality_support.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/base/files.h"

namespace poolmark::cli {
namespace {

std::atomic<bool> g_interrupted{false};

void OnSignal(int) {
  if (g_interrupted.exchange(true)) _exit(130);
  constexpr char kText[] = "\nstopping after the request in flight; once more ends at once\n";
  [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace

int Refuse(const Status& status) {
  std::fprintf(stderr, "poolmark: %s\n", std::string(status.message()).c_str());
  if (absl::IsCancelled(status)) return 130;
  return absl::IsInternal(status) || absl::IsUnknown(status) ? 70 : 2;
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

Interrupts::Interrupts() {
  g_interrupted = false;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Interrupts::~Interrupts() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& Interrupts::flag() const {
  return g_interrupted;
}

void Interrupts::Sleep(Nanoseconds wait) const {
  Nanoseconds end = RealClock().Steady() + wait;
  while (!g_interrupted) {
    Nanoseconds left = end - RealClock().Steady();
    if (left <= Nanoseconds(0)) return;
    // A signal ends poll() early.
    poll(nullptr, 0, static_cast<int>(std::clamp<int64_t>(left / std::chrono::milliseconds(1), 1, 200)));
  }
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fprintf(stderr, "\n");
}

void ProgressLine::Show(const std::string& text, bool last) {
  if (terminal_) {
    std::fprintf(stderr, "\r\x1b[K%s%s", text.c_str(), last ? "\n" : "");
    open_ = !last;
    return;
  }
  Nanoseconds now = RealClock().Steady();
  if (!last && now - shown_ < std::chrono::seconds(10)) return;
  shown_ = now;
  std::fprintf(stderr, "%s\n", text.c_str());
}

void ProgressLine::Note(const std::string& text) {
  std::fprintf(stderr, "%s%s\n", open_ ? "\r\x1b[K" : "", text.c_str());
  open_ = false;
}

}  // namespace poolmark::cli
