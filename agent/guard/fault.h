// What went wrong, as text, or nothing. The guard's own little Status: it links no library, so that it
// stays under 5 MB resident. Text: what failed, the value, what to do. Values only.
#pragma once
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace poolmark::guard {

class [[nodiscard]] Fault {
 public:
  Fault() = default;  // all is well
  explicit Fault(std::string text) : text_(std::move(text)) {}
  Fault(std::string code, std::string text) : code_(std::move(code)), text_(std::move(text)) {}
  // "open '/x': Permission denied".
  static Fault Errno(const std::string& doing, int error_number = errno) {
    return Fault("os_error", doing + ": " + std::strerror(error_number));
  }
  bool ok() const { return text_.empty(); }
  // A stable word for programs: "stale_epoch", "busy", "os_error" …; may be empty.
  const std::string& code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  std::string code_;
  std::string text_;
};

}  // namespace poolmark::guard
