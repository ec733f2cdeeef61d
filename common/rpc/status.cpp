#include "common/rpc/status.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/json.h"
#include "poolmark/v1/common.pb.h"

namespace poolmark::rpc {
namespace {

constexpr char kDetails[] = "poolmark.error_detail";
// Status details travel in the trailing headers, whose size is bounded on the client (channel.cpp): what does
// not fit is counted.
constexpr size_t kMaxDetailBytes = 192u << 10;
constexpr size_t kMaxMessageBytes = 2u << 10;

// The enums have the same numbers (both follow google.rpc.Code).
grpc::StatusCode CodeOf(absl::StatusCode code) {
  return static_cast<grpc::StatusCode>(static_cast<int>(code));
}

std::string Cut(const std::string& text, size_t limit) {
  std::string clean = ValidUtf8(text);
  if (clean.size() <= limit) return clean;
  return ValidUtf8(clean.substr(0, limit)) + " …";
}

void AddItem(const Error& error, v1::ErrorDetail* detail) {
  auto* item = detail->add_items();
  item->set_code(Cut(error.code, 128));
  item->set_where(Cut(error.where, kMaxMessageBytes));
  item->set_message(Cut(error.message, kMaxMessageBytes));
  item->set_hint(Cut(error.hint, kMaxMessageBytes));
}

}  // namespace

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  Errors errors = ErrorsOf(status);
  if (errors.size() > 1) return ToGrpc(errors);
  v1::ErrorDetail detail;
  AddItem(errors.front(), &detail);
  return grpc::Status(CodeOf(status.code()), Cut(std::string(status.message()), kMaxMessageBytes),
                      detail.SerializeAsString());
}

grpc::Status ToGrpc(const Errors& errors) {
  if (errors.empty()) return grpc::Status::OK;
  if (errors.size() == 1) return ToGrpc(ToStatus(errors.front()));
  v1::ErrorDetail detail;
  size_t bytes = 0;
  size_t taken = 0;
  for (const Error& error : errors) {
    bytes += error.code.size() + error.where.size() + error.message.size() + error.hint.size() + 16;
    if (taken > 0 && bytes > kMaxDetailBytes) break;
    AddItem(error, &detail);
    ++taken;
  }
  if (taken < errors.size()) {
    AddItem(Error{absl::StatusCode::kInvalidArgument, "more_errors", "",
                  absl::StrCat(errors.size() - taken, " more errors"), "correct these first"},
            &detail);
  }
  std::string message =
      absl::StrCat(errors.size(), " errors, the first: ", ToStatus(errors.front()).message());
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, Cut(message, kMaxMessageBytes),
                      detail.SerializeAsString());
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  auto kind = static_cast<absl::StatusCode>(static_cast<int>(status.error_code()));
  v1::ErrorDetail detail;
  if (!status.error_details().empty() && detail.ParseFromString(status.error_details()) &&
      detail.items_size() > 0) {
    Errors errors;
    for (const auto& item : detail.items()) {
      errors.push_back(Error{kind, item.code(), item.where(), item.message(), item.hint()});
    }
    if (errors.size() == 1) return ToStatus(errors.front());
    Status result = ToStatus(errors);
    result.SetPayload(kDetails, absl::Cord(status.error_details()));
    return result;
  }
  const char* code = status.error_code() == grpc::StatusCode::UNAVAILABLE         ? "unavailable"
                     : status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? "deadline"
                     : status.error_code() == grpc::StatusCode::PERMISSION_DENIED ? "permission_denied"
                     : status.error_code() == grpc::StatusCode::UNAUTHENTICATED   ? "permission_denied"
                     : status.error_code() == grpc::StatusCode::CANCELLED         ? "cancelled"
                                                                                  : "rpc";
  return ToStatus(Error{
      kind, code, "",
      status.error_message().empty() ? "the call failed without a message" : status.error_message(), ""});
}

Errors ErrorsOf(const Status& status) {
  if (status.ok()) return {};
  if (auto payload = status.GetPayload(kDetails)) {
    v1::ErrorDetail detail;
    if (detail.ParseFromString(std::string(*payload))) {
      Errors errors;
      for (const auto& item : detail.items()) {
        errors.push_back(Error{status.code(), item.code(), item.where(), item.message(), item.hint()});
      }
      return errors;
    }
  }
  return SplitErrors(status);
}

}  // namespace poolmark::rpc
