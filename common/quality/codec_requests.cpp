#include "common/base/json_text.h"
#include "common/quality/codec.h"
#include "common/quality/codec_parts.h"

namespace poolmark::quality {
namespace {

constexpr int64_t kMostAttempts = 1000;  // a bound for sums; a run makes three

}  // namespace

Result<std::string> EncodeRequests(const RequestLog& log) {
  Json troubled = Json::array();
  for (const TroubledRequest& request : log.troubled) {
    troubled.push_back({{"request_id", request.request_id},
                        {"attempts", request.attempts},
                        {"successful", request.successful},
                        {"problem", request.problem}});
  }
  Json out = {{"schema_version", kSchemaVersion},
              {"label", log.label},
              {"started_at", log.started_at},
              {"finished_at", log.finished_at},
              {"requests", log.requests},
              {"sent_again", log.sent_again()},
              {"failed", log.failed()},
              {"troubled", std::move(troubled)},
              {"chunks_registered_by_stores", OrNull(log.chunks_registered_by_stores)}};
  POOLMARK_ASSIGN_OR_RETURN(std::string text, WriteJson(out, 2));
  return text + "\n";
}

Result<RequestLog> DecodeRequests(std::string_view text, const std::string& where) {
  POOLMARK_ASSIGN_OR_RETURN(Json root, ParseFile(text, where));
  POOLMARK_RETURN_IF_ERROR(CheckSchema(root, where));
  Fields f(root, where);
  RequestLog log;
  log.label = f.Str("label");
  log.started_at = f.Str("started_at");
  log.finished_at = f.Str("finished_at");
  log.requests = f.Count("requests");
  if (Json* troubled = f.Array("troubled")) {
    for (size_t i = 0; i < troubled->size(); ++i) {
      Fields t((*troubled)[i], absl::StrCat(where, " troubled[", i, "]"));
      TroubledRequest request;
      request.request_id = t.Str("request_id");
      request.attempts = t.Count("attempts", 1);
      if (request.attempts > kMostAttempts)
        t.Fail("attempts", absl::StrCat("is ", request.attempts, ", at most ", kMostAttempts, " is needed"));
      request.successful = t.Bool("successful");
      request.problem = t.Str("problem");
      f.Adopt(t.status());
      if (!t.status().ok()) break;
      log.troubled.push_back(std::move(request));
    }
  }
  log.chunks_registered_by_stores = f.NullableNum("chunks_registered_by_stores");
  if (const double chunks = log.chunks_registered_by_stores.value_or(0);
      !(chunks >= 0 && chunks <= kMostTokens))
    f.Fail("chunks_registered_by_stores",
           absl::StrCat("is ", chunks, ", between 0 and ", kMostTokens, " makes sense"));
  // Both are totals of the list.
  for (const auto& [key, want] :
       {std::pair("sent_again", log.sent_again()), std::pair("failed", log.failed())}) {
    const int64_t have = f.Count(key);
    if (have != want) f.Fail(key, absl::StrCat("is ", have, ", 'troubled' gives ", want));
  }
  if (!f.status().ok()) return f.status();
  return log;
}

}  // namespace poolmark::quality
