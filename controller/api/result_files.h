// Files of a job's results directory for clients: never above it, never through a link. Thread-safe.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

// Every regular file but leftovers; `closed`: none is written any more.
Result<std::vector<v1::ResultFile>> ListResults(const std::string& directory, bool closed);
// Chunks of at most 256 KiB from `offset`; the last one has size and SHA-256 of the whole file. `write`
// returns false when the client has gone.
Status SendResult(const std::string& directory, const std::string& path, uint64_t offset,
                  const std::function<bool(v1::FetchResultsResponse)>& write);

}  // namespace poolmark::controller
