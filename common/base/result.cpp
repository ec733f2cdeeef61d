#include "common/base/result.h"

#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/errors.h"

namespace poolmark {
namespace {

constexpr char kPayload[] = "poolmark.error";
constexpr char kSeveral[] = "poolmark.errors";
constexpr char kSeparator = '\x1f';  // never part of our texts: control characters are escaped before
constexpr char kBetween = '\x1e';

std::string Packed(const Error& error) {
  const std::string sep(1, kSeparator);
  return absl::StrCat(error.code, sep, error.where, sep, error.message, sep, error.hint);
}

void Unpack(const std::string& text, Error* error) {
  const std::vector<std::string> parts = absl::StrSplit(text, kSeparator);
  if (parts.size() != 4) return;
  error->code = parts[0];
  error->where = parts[1];
  error->message = parts[2];
  error->hint = parts[3];
}

}  // namespace

Status ToStatus(const Error& error) {
  std::string text;
  for (const std::string* part : {&error.where, &error.message, &error.hint}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += *part;
  }
  Status status(error.kind == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : error.kind, text);
  status.SetPayload(kPayload, absl::Cord(Packed(error)));
  return status;
}

Error ErrorOf(const Status& status) {
  Error error;
  error.kind = status.code();
  error.message = std::string(status.message());
  if (auto payload = status.GetPayload(kPayload)) Unpack(std::string(*payload), &error);
  return error;
}

Errors SplitErrors(const Status& status) {
  if (status.ok()) return {};
  const auto payload = status.GetPayload(kSeveral);
  if (!payload) return {ErrorOf(status)};
  Errors errors;
  const std::vector<std::string> parts = absl::StrSplit(std::string(*payload), kBetween);
  for (const std::string& one : parts) {
    errors.emplace_back().kind = status.code();
    Unpack(one, &errors.back());
  }
  return errors;
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
  Status status(absl::StatusCode::kInvalidArgument, text);
  std::string packed;
  for (const Error& error : errors) {
    if (!packed.empty()) packed += kBetween;
    packed += Packed(error);
  }
  status.SetPayload(kSeveral, absl::Cord(packed));
  return status;
}

}  // namespace poolmark
