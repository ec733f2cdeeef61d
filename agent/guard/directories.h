// Directories that the guard makes for a run and takes away again. Below the base, which the machine's
// administrator chose, no symbolic link is ever followed: engines can write there. Not thread-safe.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/guard/fault.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::guard {

// Parts of a relative path; empty, ".", "..", absolute and NUL make it a fault.
Fault SplitRelative(const std::string& path, std::vector<std::string>* parts);

// The parts of base/path that do not exist yet, as absolute paths, outermost first. A part that exists
// and is no directory (a link counts as none) is a fault; so is an absent base.
Fault MissingParts(const std::string& base, const std::string& path, std::vector<std::string>* missing);

struct MadeDirectory {
  uint64_t device = 0;
  uint64_t inode = 0;
};
// Makes one directory below the base whose parents exist. It must not exist (code "exists").
Fault MakeDirectory(const std::string& base, const std::string& absolute, mode_t mode,
                    std::optional<uid_t> uid, std::optional<gid_t> gid, MadeDirectory* made);

struct RemovedTree {
  uint64_t entries = 0;
  std::string left;  // the first thing that could not be removed, with the reason; empty: all is gone
};
// Removes the directory if it still is (device, inode) (nothing given: only if it is empty), with all
// below it, links themselves and not what they point to, and never across a mount point. `breathe` is called
// every few hundred entries: a tier of a million blocks must not keep the guard from its other duties.
RemovedTree RemoveDirectory(const std::string& path, std::optional<MadeDirectory> identity,
                            const std::function<void()>& breathe = {});

}  // namespace poolmark::guard
