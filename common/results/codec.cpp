#include "common/results/codec.h"

namespace poolmark::results {

Status CheckVersion(const Json& json, std::string_view where, int version) {
  if (!json.is_object()) return InvalidInput(std::string(where), "is no object");
  const auto at = json.find("schema_version");
  if (at == json.end()) return InvalidInput(std::string(where), "has no schema_version");
  if (at->is_number_integer() && *at == version) return absl::OkStatus();
  return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "schema_version", std::string(where),
                        "schema_version is " + at->dump(-1, ' ', false, Json::error_handler_t::replace) +
                            ", this program reads " + std::to_string(version),
                        "use the version of poolmark that wrote it"});
}

}  // namespace poolmark::results
