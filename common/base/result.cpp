#include "common/base/result.h"

#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace poolmark {
namespace {

constexpr char kPayload[] = "poolmark.error";
constexpr char kSeparator = '\x1f';  // never part of our texts: control characters are escaped before

}  // namespace

Status ToStatus(const Error& error) {
  std::string text;
  for (const std::string* part : {&error.where, &error.message, &error.hint}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += *part;
  }
  Status status(error.kind == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : error.kind, text);
  const std::string sep(1, kSeparator);
  status.SetPayload(
      kPayload, absl::Cord(absl::StrCat(error.code, sep, error.where, sep, error.message, sep, error.hint)));
  return status;
}

Error ErrorOf(const Status& status) {
  Error error;
  error.kind = status.code();
  error.message = std::string(status.message());
  if (auto payload = status.GetPayload(kPayload)) {
    std::vector<std::string> parts = absl::StrSplit(std::string(*payload), kSeparator);
    if (parts.size() == 4) {
      error.code = parts[0];
      error.where = parts[1];
      error.message = parts[2];
      error.hint = parts[3];
    }
  }
  return error;
}

Status InvalidInput(std::string where, std::string message, std::string hint) {
  return ToStatus(Error{absl::StatusCode::kInvalidArgument, "invalid_input", std::move(where),
                        std::move(message), std::move(hint)});
}
Status NotFound(std::string where, std::string message, std::string hint) {
  return ToStatus(
      Error{absl::StatusCode::kNotFound, "not_found", std::move(where), std::move(message), std::move(hint)});
}
Status Precondition(std::string where, std::string message, std::string hint) {
  return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "failed_precondition", std::move(where),
                        std::move(message), std::move(hint)});
}
Status Unavailable(std::string where, std::string message, std::string hint) {
  return ToStatus(Error{absl::StatusCode::kUnavailable, "unavailable", std::move(where), std::move(message),
                        std::move(hint)});
}
Status Internal(std::string where, std::string message, std::string hint) {
  return ToStatus(
      Error{absl::StatusCode::kInternal, "internal", std::move(where), std::move(message), std::move(hint)});
}
Status FromErrno(std::string where, const std::string& doing, int error_number) {
  absl::StatusCode kind = absl::ErrnoToStatus(error_number, "").code();
  return ToStatus(
      Error{kind, "os_error", std::move(where), absl::StrCat(doing, ": ", std::strerror(error_number)), ""});
}

Status ToStatus(const Errors& errors) {
  if (errors.empty()) return absl::OkStatus();
  if (errors.size() == 1) return ToStatus(errors.front());
  std::string text;
  for (const Error& error : errors) {
    if (!text.empty()) text += '\n';
    text += std::string(ToStatus(error).message());
  }
  return Status(absl::StatusCode::kInvalidArgument, text);
}

}  // namespace poolmark
