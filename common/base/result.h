// Errors of the whole program: Result<T> is absl::StatusOr with a structured detail.
// Use it for whatever a caller may have to handle; domain outcomes (a failed check, an invalid
// repeat) are data of their own and no errors. Thread-safe: values only.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace poolmark {

using Status = absl::Status;
template <class T>
using Result = absl::StatusOr<T>;

// What failed (`message`, with the value and the bound), where ("job.yaml:12:5 workloads.code.warm_up"
// or a path), and what to do (`hint`). `code` is a stable word for programs, such as "unknown_key".
struct Error {
  absl::StatusCode kind = absl::StatusCode::kUnknown;
  std::string code;
  std::string where;
  std::string message;
  std::string hint;
};

// The status of an Error; the text is "where: message: hint" with empty parts left out.
Status ToStatus(const Error& error);
// The Error behind a status; for a foreign status its kind and message.
Error ErrorOf(const Status& status);

// Shorthands for the common kinds.
Status InvalidInput(std::string where, std::string message, std::string hint = "");
Status NotFound(std::string where, std::string message, std::string hint = "");
Status Precondition(std::string where, std::string message, std::string hint = "");
Status Unavailable(std::string where, std::string message, std::string hint = "");
Status Internal(std::string where, std::string message, std::string hint = "");
// From errno: "where: doing 'x': Permission denied".
Status FromErrno(std::string where, const std::string& doing, int error_number);

// All errors of one input, reported at once. Converted to one INVALID_ARGUMENT whose text has a line each.
using Errors = std::vector<Error>;
Status ToStatus(const Errors& errors);

#define POOLMARK_CONCAT_INNER(a, b) a##b
#define POOLMARK_CONCAT(a, b) POOLMARK_CONCAT_INNER(a, b)
#define POOLMARK_RETURN_IF_ERROR(expression)           \
  do {                                                 \
    ::poolmark::Status poolmark_status = (expression); \
    if (!poolmark_status.ok()) return poolmark_status; \
  } while (false)
#define POOLMARK_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return result.status();                             \
  declaration = std::move(result).value()
// POOLMARK_ASSIGN_OR_RETURN(auto text, ReadFile(path));
#define POOLMARK_ASSIGN_OR_RETURN(declaration, expression) \
  POOLMARK_ASSIGN_OR_RETURN_IMPL(POOLMARK_CONCAT(poolmark_result_, __LINE__), declaration, expression)

}  // namespace poolmark
