// Files: read whole, write atomically and durably, remove trees. All paths are explicit; nothing follows
// a symbolic link below a root it was given. Functions are thread-safe; errors name the path.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace poolmark {

// Regular files only (no FIFO, no device); refuses more than `limit` bytes.
Result<std::string> ReadFile(const std::string& path, uint64_t limit = 1ull << 30);
// For /proc and /sys, whose files have no size: up to `limit` bytes.
Result<std::string> ReadPseudoFile(const std::string& path, uint64_t limit = 16u << 20);

// Writes <path>.tmp, fsyncs, renames into place, fsyncs the directory. A reader never sees half a file;
// after an OK the content survives a power cut. On failure the old file stands and the .tmp is removed.
Status AtomicWriteFile(const std::string& path, std::string_view content, unsigned mode = 0644);
// Appends and fdatasyncs.
Status AppendFile(const std::string& path, std::string_view content, bool sync, unsigned mode = 0644);
// Renames and fsyncs the directory of `to`.
Status RenameDurably(const std::string& from, const std::string& to);
Status SyncDirectory(const std::string& path);

Status MakeDirs(const std::string& path, unsigned mode = 0755);
bool FileExists(const std::string& path);
// Removes `path` and all below it, never following links. Absent is OK. Returns how many entries went.
Result<uint64_t> RemoveTree(const std::string& path);
// Names in a directory, sorted, without "." and "..".
Result<std::vector<std::string>> ListDir(const std::string& path);
// Relative paths of all regular files below, sorted.
Result<std::vector<std::string>> ListTree(const std::string& path);
// A new directory <prefix>XXXXXX under $TMPDIR or /tmp, mode 0700.
Result<std::string> MakeTempDir(const std::string& prefix);
std::string JoinPath(std::string_view left, std::string_view right);

}  // namespace poolmark
