#include "controller/api/result_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/beneath.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/results/layout.h"

namespace poolmark::controller {
namespace {

constexpr size_t kFileChunk = 256u << 10;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// SHA256SUMS as written at the end of the job.
std::map<std::string, std::string> SumsOf(const std::string& directory) {
  std::map<std::string, std::string> sums;
  auto text = ReadFile(JoinPath(directory, std::string(results::kSumsFile)), 64u << 20);
  if (!text.ok()) return sums;
  size_t at = 0;
  while (at < text->size()) {
    const size_t end = std::min(text->find('\n', at), text->size());
    if (end - at > 66) sums[text->substr(at + 66, end - at - 66)] = text->substr(at, 64);
    at = end + 1;
  }
  return sums;
}

}  // namespace

Result<std::vector<v1::ResultFile>> ListResults(const std::string& directory, bool closed) {
  std::vector<v1::ResultFile> files;
  if (!FileExists(directory)) return files;
  POOLMARK_ASSIGN_OR_RETURN(auto paths, ListTree(directory));
  const auto sums = closed ? SumsOf(directory) : std::map<std::string, std::string>();
  for (const std::string& path : paths) {
    if (path.ends_with(".tmp")) continue;
    struct stat info {};
    if (lstat(JoinPath(directory, path).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    v1::ResultFile file;
    file.set_path(path);
    file.set_size(static_cast<uint64_t>(info.st_size));
    if (auto sum = sums.find(path); sum != sums.end()) {
      file.set_sha256(sum->second);
    } else if (closed) {  // SHA256SUMS itself, and what was added after it
      POOLMARK_ASSIGN_OR_RETURN(std::string digest, Sha256OfFile(JoinPath(directory, path)));
      file.set_sha256(digest);
    }
    file.set_complete(closed);
    files.push_back(std::move(file));
  }
  return files;
}

Status SendResult(const std::string& directory, const std::string& path, uint64_t offset,
                  const std::function<bool(v1::FetchResultsResponse)>& write) {
  File root(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.fd() < 0) return NotFound(path, "the job has no results yet");
  File file(path.empty() ? -1 : OpenBeneath(root.fd(), path, O_RDONLY | O_NONBLOCK));
  if (file.fd() < 0) {
    if (errno == ENOENT || path.empty())
      return NotFound(path, "no such file in the results of this job", "list them with ListResultFiles");
    if (errno == EXDEV || errno == ELOOP || errno == EINVAL)
      return InvalidInput(path, "is no file below the results directory");
    return FromErrno(path, "opening", errno);
  }
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return FromErrno(path, "reading", errno);
  if (!S_ISREG(info.st_mode)) return InvalidInput(path, "is no regular file");
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (offset > size)
    return InvalidInput(path, absl::StrCat("offset ", offset, " is past its end at ", size),
                        "fetch it from the start");
  // One pass: what lies before the offset only counts for the digest.
  Sha256 digest;
  std::string buffer(kFileChunk, '\0');
  uint64_t at = 0;
  while (at < size) {
    const uint64_t until = at < offset ? offset : size;
    const ssize_t got =
        pread(file.fd(), buffer.data(), static_cast<size_t>(std::min<uint64_t>(kFileChunk, until - at)),
              static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(path, "reading", errno);
    if (got == 0)
      return ToStatus(Error{absl::StatusCode::kAborted, "changed", path, "became shorter while it was read",
                            "fetch it again"});
    const std::string_view piece(buffer.data(), static_cast<size_t>(got));
    digest.Update(piece);
    at += static_cast<uint64_t>(got);
    if (at <= offset) continue;
    v1::FetchResultsResponse chunk;
    chunk.set_data(std::string(piece));
    chunk.set_size(size);
    if (!write(std::move(chunk))) return absl::OkStatus();
  }
  v1::FetchResultsResponse last;
  last.set_size(size);
  last.set_sha256(digest.Hex());
  last.set_last(true);
  (void)write(std::move(last));
  return absl::OkStatus();
}

}  // namespace poolmark::controller
