// fetch: a job's results directory, whole or not at all. Files arrive in DIR.partial, each checked against
// the controller's SHA-256; when all are there the directory gets its name by one rename. --resume goes on
// where a fetch was interrupted.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/output/exit_code.h"
#include "cli/output/interrupt.h"
#include "cli/remote/commands.h"
#include "cli/remote/follow.h"
#include "cli/remote/show.h"
#include "cli/remote/watch_view.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/units.h"
#include "common/rpc/streams.h"

namespace poolmark::cli {

bool IsSafeResultPath(const std::string& path);

namespace {

constexpr int kTries = 5;

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

Status WriteAt(int fd, const std::string& path, std::string_view data) {
  while (!data.empty()) {
    ssize_t count = write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FromErrno(path, "writing it", errno);
    data.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Is `path` the file itself, with that content? A link is none: it would leave the directory incomplete.
bool HasFile(const std::string& path, const std::string& sha256) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  auto digest = Sha256OfFile(path);
  return digest.ok() && *digest == sha256;
}

// Fetches one file to its place in `root`, from where an earlier try stopped.
Status FetchOne(Session& session, const std::string& job_id, const v1::ResultFile& file,
                const std::string& root, std::stop_token stop) {
  const std::string path = JoinPath(root, file.path());
  if (HasFile(path, file.sha256())) return absl::OkStatus();
  POOLMARK_RETURN_IF_ERROR(MakeDirs(path.substr(0, path.rfind('/'))));
  const std::string part = path + ".tmp";
  Descriptor out{open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)};
  if (out.fd < 0) return FromErrno(part, "opening it", errno);
  struct stat status {};
  if (fstat(out.fd, &status) != 0) return FromErrno(part, "looking at it", errno);
  uint64_t offset = static_cast<uint64_t>(status.st_size);
  if (offset > file.size()) offset = 0;
  if (ftruncate(out.fd, static_cast<off_t>(offset)) != 0 || lseek(out.fd, 0, SEEK_END) < 0)
    return FromErrno(part, "cutting it", errno);
  v1::FetchResultsRequest request;
  request.set_job_id(job_id);
  request.set_path(file.path());
  request.set_offset(offset);
  Status written;
  bool whole = false;
  Status read = rpc::ReadStream<v1::FetchResultsResponse>(
      [&](grpc::ClientContext* context) { return session.stub().FetchResults(context, request); },
      rpc::Deadline("ControllerService/FetchResults"), stop,
      [&](v1::FetchResultsResponse& chunk) {
        written = WriteAt(out.fd, part, chunk.data());
        whole = whole || chunk.last();
        return written.ok();
      });
  POOLMARK_RETURN_IF_ERROR(written);
  POOLMARK_RETURN_IF_ERROR(read);
  if (!whole) return Unavailable(file.path(), "the transfer ended before the file");
  if (fsync(out.fd) != 0) return FromErrno(part, "syncing it", errno);
  POOLMARK_ASSIGN_OR_RETURN(std::string digest, Sha256OfFile(part));
  if (digest != file.sha256()) {
    std::remove(part.c_str());
    return ToStatus(Error{absl::StatusCode::kDataLoss, "digest", file.path(),
                          absl::StrCat("its SHA-256 is ", digest, ", the controller says ", file.sha256()),
                          "the transfer or the controller's disk is broken"});
  }
  return RenameDurably(part, path);
}

void Tell(const std::string& target, int files, uint64_t bytes, const v1::Job& job, Format format) {
  if (format == Format::kTable) {
    WriteOut(absl::StrCat(target, ": ", files, " files, ", FormatBytes(bytes), ", all digests right\n"));
  } else {
    WriteOut(
        JsonText({{"directory", target}, {"files", files}, {"bytes", bytes}, {"job", JobJson(job)}}, format));
  }
}

}  // namespace

bool IsSafeResultPath(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.size() > 1024) return false;
  for (char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') return false;
  }
  std::vector<std::string> parts = absl::StrSplit(path, '/');
  for (const std::string& part : parts) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

namespace {

// Does the directory hold every file as the controller has it?
bool IsWhole(const v1::ListResultFilesResponse& list, const std::string& directory) {
  for (const auto& file : list.files()) {
    if (!IsSafeResultPath(file.path())) return false;
    if (!HasFile(JoinPath(directory, file.path()), file.sha256())) return false;
  }
  return true;
}

}  // namespace

int RunFetch(const JobOptions& options) {
  const Format format = options.remote.format();
  Interrupt interrupt;
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  auto job = GetJob(**session, options.job);
  if (!job.ok()) return Fail(WithAdvice(job.status(), (*session)->context()), format);
  v1::ListResultFilesRequest request;
  request.set_job_id(job->id());
  auto list = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::ListResultFiles, request,
                        rpc::Deadline("ControllerService/ListResultFiles"));
  if (!list.ok()) return Fail(WithAdvice(list.status(), (*session)->context()), format);
  if (!list->job_finished()) {
    return Fail(Precondition(absl::StrCat("job ", job->id()),
                             absl::StrCat("it has not ended yet (", StateWord(job->state()), ")"),
                             absl::StrCat("poolmark wait ", job->id())),
                format);
  }
  const std::string target = options.directory.empty() ? job->id() : options.directory;
  const std::string partial = target + ".partial";
  if (FileExists(target) && options.resume && IsWhole(*list, target)) {
    uint64_t bytes = 0;
    for (const auto& file : list->files()) bytes += file.size();
    Tell(target, list->files_size(), bytes, *job, format);
    return kExitOk;
  }
  if (FileExists(target))
    return Fail(InvalidInput(target, "it exists already", "give another directory, or remove it"), format);
  if (FileExists(partial) && !options.resume) {
    return Fail(InvalidInput(partial, "an earlier fetch did not end",
                             "--resume goes on with it; remove it to start over"),
                format);
  }
  Status made = MakeDirs(partial);
  if (!made.ok()) return Fail(made, format);
  uint64_t bytes = 0, total = 0;
  for (const auto& file : list->files()) total += file.size();
  int done = 0;
  Reopen reopen(session->get(), job->id(), FollowPlan().patience, TellAway);
  for (const auto& file : list->files()) {
    if (!IsSafeResultPath(file.path()))
      return Fail(Internal(Printable(file.path()), "the controller names a path that leaves the directory"),
                  format);
    Status status;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      status = FetchOne(**session, job->id(), file, partial, interrupt.token());
      if (status.ok() || !IsTransient(status) || interrupt.happened()) break;
      if (reopen.After(status, interrupt.token(), Nanoseconds(0))) break;
    }
    if (interrupt.happened()) {
      WriteErr(
          absl::StrCat("\ninterrupted; go on with 'poolmark fetch ", job->id(), " ", target, " --resume'\n"));
      return kExitInterrupted;
    }
    if (!status.ok()) return Fail(WithAdvice(status, (*session)->context()), format);
    bytes += file.size();
    ++done;
    if (StderrIsTerminal() && format == Format::kTable) {
      WriteErr(absl::StrCat("\r\x1b[2K",
                            Bar(static_cast<uint32_t>(done), static_cast<uint32_t>(list->files_size()), 20),
                            " files, ", FormatBytes(bytes), " of ", FormatBytes(total)));
    }
  }
  if (StderrIsTerminal() && format == Format::kTable) WriteErr("\r\x1b[2K");
  Status renamed = RenameDurably(partial, target);
  if (!renamed.ok()) return Fail(renamed, format);
  Tell(target, list->files_size(), bytes, *job, format);
  return kExitOk;
}

}  // namespace poolmark::cli
