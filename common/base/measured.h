// A reading that may be missing. Missing is never zero, NaN or -1 inside the program;
// sentinels exist only in file codecs whose format fixes them. Plain values, no threads.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace poolmark {

struct NotMeasured {
  std::string reason;  // "series not exposed by this engine version"
  bool operator==(const NotMeasured&) const = default;
};

template <class T>
class Measured {
 public:
  Measured() : value_(NotMeasured{"not read"}) {}
  Measured(T value) : value_(std::move(value)) {}                // NOLINT: implicit on purpose
  Measured(NotMeasured missing) : value_(std::move(missing)) {}  // NOLINT

  bool has_value() const { return std::holds_alternative<T>(value_); }
  explicit operator bool() const { return has_value(); }
  // Precondition: has_value().
  const T& value() const { return std::get<T>(value_); }
  const T& operator*() const { return value(); }
  // Precondition: !has_value().
  const std::string& reason() const { return std::get<NotMeasured>(value_).reason; }
  T value_or(T other) const { return has_value() ? value() : std::move(other); }
  bool operator==(const Measured&) const = default;

 private:
  std::variant<T, NotMeasured> value_;
};

}  // namespace poolmark
