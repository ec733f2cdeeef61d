#include "cli/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/json.h"

namespace poolmark::cli {
namespace {

constexpr int kBrokenPipe = 141;  // what a shell reports for a program that SIGPIPE ended

// The first error of ShowOut; 0: all was written.
std::atomic<int> g_lost_output{0};

// 0, or why not all of it could be written.
int WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(STDOUT_FILENO, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    text.remove_prefix(static_cast<size_t>(done));
  }
  return 0;
}

void SayLost(const char* why) {
  dprintf(STDERR_FILENO, "poolmark: writing the output: %s\n", why);
}

}  // namespace

bool StdoutIsTerminal() {
  return isatty(STDOUT_FILENO) == 1;
}

bool StderrIsTerminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

bool UseColour() {
  static const bool use = [] {
    const char* no = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return StdoutIsTerminal() && (no == nullptr || *no == 0) &&
           (term == nullptr || std::strcmp(term, "dumb") != 0);
  }();
  return use;
}

int TerminalWidth() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

std::string Coloured(std::string_view text, Colour colour) {
  if (!UseColour() || colour == Colour::kNone) return std::string(text);
  const char* code = colour == Colour::kGreen    ? "32"
                     : colour == Colour::kYellow ? "33"
                     : colour == Colour::kRed    ? "31"
                     : colour == Colour::kDim    ? "2"
                                                 : "1";
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string Printable(std::string_view text, bool lines) {
  std::string clean = ValidUtf8(text);
  std::string out;
  for (size_t i = 0; i < clean.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(clean[i]);
    // C1 controls (U+0080 to U+009F) are two bytes in UTF-8, C2 80 to C2 9F; U+202A to U+202E and U+2066 to
    // U+2069 turn the direction of text.
    unsigned char next = i + 1 < clean.size() ? static_cast<unsigned char>(clean[i + 1]) : 0;
    unsigned char third = i + 2 < clean.size() ? static_cast<unsigned char>(clean[i + 2]) : 0;
    char buffer[16];
    if ((c < 0x20 && !(lines && (c == '\n' || c == '\t'))) || c == 0x7f) {
      std::snprintf(buffer, sizeof buffer, "\\x%02x", c);
      out += buffer;
    } else if (c == 0xc2 && next >= 0x80 && next <= 0x9f) {
      std::snprintf(buffer, sizeof buffer, "\\x%02x", next);
      out += buffer;
      ++i;
    } else if (c == 0xe2 && ((next == 0x80 && third >= 0xaa && third <= 0xae) ||
                             (next == 0x81 && third >= 0xa6 && third <= 0xa9))) {
      std::snprintf(buffer, sizeof buffer, "\\u20%02x", (next == 0x80 ? third - 0x80 : third - 0x80 + 0x40));
      out += buffer;
      i += 2;
    } else {
      out += clean[i];
    }
  }
  return out;
}

void WriteOut(std::string_view text) {
  const int error = WriteAll(text);
  if (error == EPIPE) _exit(kBrokenPipe);
  if (error != 0) {
    SayLost(std::strerror(error));
    _exit(1);
  }
}
void ShowOut(std::string_view text) {
  if (const int error = WriteAll(text); error != 0) {
    int none = 0;
    g_lost_output.compare_exchange_strong(none, error);
  }
}
int FinishOutput(int exit_code) {
  // A long text is written by the stream itself, whose flush then has nothing more that could fail.
  const bool flushed = std::fflush(stdout) == 0;
  int error = flushed ? 0 : errno;
  if (const int lost = g_lost_output; lost != 0) error = lost;
  if (error == 0 && std::ferror(stdout) == 0) return exit_code;
  if (error == EPIPE) return exit_code == 0 ? kBrokenPipe : exit_code;
  SayLost(error != 0 ? std::strerror(error) : "not all of it could be written");
  return exit_code == 0 ? 1 : exit_code;
}
void WriteErr(std::string_view text) {
  [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace poolmark::cli
