// Takes known secrets out of a stream, also where one is cut by the end of a piece. Not thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::guard {

class Redactor {
 public:
  // Empty secrets are ignored.
  explicit Redactor(std::vector<std::string> secrets);
  // From here on this one too.
  void Add(const std::string& secret);
  bool idle() const { return secrets_.empty(); }
  // The part of what came so far that can be written. At most the longest secret's length minus one byte
  // is held back, and only what may be the beginning of a secret.
  std::string Pass(std::string_view piece);
  // The rest, at the end of the stream.
  std::string Finish();

 private:
  size_t HeldBack(std::string_view text) const;

  std::vector<std::string> secrets_;  // longest first
  std::string held_;
};

}  // namespace poolmark::guard
