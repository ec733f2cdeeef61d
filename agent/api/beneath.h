// Files below a job's directory, which its engines can write: every path is resolved without leaving the
// directory and without following any link (common/base/beneath.h).
// Thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/guard/unique_fd.h"
#include "common/base/result.h"

namespace poolmark::agent {

// A regular file for reading; FIFOs, devices and links are refused without waiting for them.
Result<guard::UniqueFd> OpenBeneath(const std::string& root, const std::string& path, uint64_t* size);
// Writes a file whose directories exist, replacing only one that is there as a regular file.
Status WriteBeneath(const std::string& root, const std::string& path, std::string_view content,
                    std::optional<unsigned> uid, std::optional<unsigned> gid);
struct FoundFile {
  std::string path;  // relative to root
  uint64_t size = 0;
};
// Regular files below root/directory ("": root), at most `limit`; more is an error.
Result<std::vector<FoundFile>> ListBeneath(const std::string& root, const std::string& directory,
                                           size_t limit);

}  // namespace poolmark::agent
