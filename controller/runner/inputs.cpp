#include "controller/runner/inputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/units.h"
#include "common/prom/catalogue.h"
#include "common/spec/read.h"
#include "common/stats/slo.h"

namespace poolmark::controller {
namespace {

bool IsDigest(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

Result<InputStore> InputStore::Open(const std::string& directory, const std::string& stacks_dir,
                                    const std::string& slo_dir, const std::string& catalogue_dir) {
  POOLMARK_RETURN_IF_ERROR(MakeDirs(directory, 0711));
  // The load reads large ones as the engines' user, whatever this process's umask: by name, that is by
  // digest.
  if (chmod(directory.c_str(), 0711) != 0) return FromErrno(directory, "letting others through", errno);
  // Pieces of uploads that a restart cut off.
  POOLMARK_ASSIGN_OR_RETURN(auto names, ListDir(directory));
  for (const std::string& name : names) {
    if (name.find(".part-") != std::string::npos) (void)RemoveTree(JoinPath(directory, name));
  }
  std::vector<std::string> dialects;
  if (!catalogue_dir.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(const auto catalogue, prom::Catalogue::Load(catalogue_dir));
    for (const auto& [name, dialect] : catalogue.dialects()) {
      dialects.push_back(name);
      dialects.insert(dialects.end(), dialect.aliases.begin(), dialect.aliases.end());
    }
  }
  return InputStore(directory, stacks_dir, slo_dir, std::move(dialects));
}

std::string InputStore::PathOf(const std::string& sha256) const {
  return JoinPath(directory_, sha256);
}
bool InputStore::Has(const std::string& sha256) const {
  return IsDigest(sha256) && FileExists(PathOf(sha256));
}

Result<uint64_t> InputStore::SizeOf(const std::string& sha256) const {
  struct stat info {};
  if (!IsDigest(sha256) || stat(PathOf(sha256).c_str(), &info) != 0)
    return NotFound(sha256, "no such input", "upload it first");
  return static_cast<uint64_t>(info.st_size);
}

InputStore::Upload::Upload(Upload&& other) noexcept
    : store_(other.store_),
      sha256_(std::move(other.sha256_)),
      part_(std::move(other.part_)),
      size_(other.size_) {
  other.part_.clear();
}
InputStore::Upload::~Upload() {
  if (!part_.empty()) (void)RemoveTree(part_);
}

Status InputStore::Upload::Append(const std::string& bytes) {
  size_ += bytes.size();
  if (size_ > kMaxInputBytes)
    return InvalidInput(
        sha256_, absl::StrCat("larger than ", FormatBytes(kMaxInputBytes), ", the most an input may have"));
  return AppendFile(part_, bytes, false, 0644);
}

Result<uint64_t> InputStore::Upload::Finish() {
  POOLMARK_ASSIGN_OR_RETURN(std::string digest, Sha256OfFile(part_));
  if (digest != sha256_) {
    return InvalidInput("upload",
                        absl::StrCat("the content has SHA-256 ", digest, ", announced was ", sha256_),
                        "the file changed while it was read: submit again");
  }
  POOLMARK_RETURN_IF_ERROR(AppendFile(part_, "", true, 0644));
  if (chmod(part_.c_str(), 0644) != 0) return FromErrno(part_, "letting others read it", errno);
  POOLMARK_RETURN_IF_ERROR(RenameDurably(part_, store_->PathOf(sha256_)));
  part_.clear();
  return size_;
}

Result<InputStore::Upload> InputStore::Begin(const std::string& sha256) const {
  if (!IsDigest(sha256))
    return InvalidInput("upload", absl::StrCat("'", sha256.substr(0, 80), "' is no SHA-256"),
                        "64 lowercase hex digits");
  const std::string part = absl::StrCat(PathOf(sha256), ".part-", RandomHex(8));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(part, "", 0644));
  return Upload(this, sha256, part);
}

Result<std::string> ReadCatalogueStack(const std::string& stacks_dir, const std::string& name) {
  if (name.find('/') != std::string::npos || name.find("..") != std::string::npos)
    return NotFound(name, "no name of the catalogue");
  const std::string file = JoinPath(stacks_dir, name.ends_with(".yaml") ? name : name + ".yaml");
  if (!FileExists(file))
    return NotFound(name, "no such stack in the catalogue", "list them with `poolmark stacks`");
  return ReadFile(file, kMaxSpecBytes);
}

Result<spec::JobSpec> InputStore::ReadJob(const v1::SubmitJobRequest& request, Errors* errors) const {
  std::map<std::string, std::string> digests;
  for (const v1::JobInput& input : request.inputs()) {
    digests[input.path()] = input.sha256();
    if (!Has(input.sha256())) {
      errors->push_back({absl::StatusCode::kFailedPrecondition, "input_missing", input.path(),
                         absl::StrCat("input ", input.sha256(), " was not uploaded"), "upload it first"});
    }
  }
  auto files = [&](const std::string& name) -> Result<std::string> {
    auto found = digests.find(name);
    if (found != digests.end()) return ReadFile(PathOf(found->second), kMaxSpecBytes);
    if (name.find('/') != std::string::npos || name.find('.') != std::string::npos)
      return NotFound(name, "is none of the job's files", "paths are relative to the job file");
    return ReadCatalogueStack(stacks_dir_, name);
  };
  auto job = digests.find(request.job_path());
  if (job == digests.end()) {
    errors->push_back({absl::StatusCode::kInvalidArgument, "input_missing", "job_path",
                       absl::StrCat("'", request.job_path(), "' is none of the inputs"), ""});
  }
  if (!errors->empty()) return ToStatus(*errors);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(PathOf(job->second), kMaxSpecBytes));
  std::map<std::string, std::string> set(request.set().begin(), request.set().end());
  spec::Names names{{}, dialects_};
  POOLMARK_ASSIGN_OR_RETURN(auto slos, PresetsOf(request));
  for (const stats::Slo& slo : slos) names.presets.push_back(slo.name);
  auto spec = spec::ReadJob(text, request.job_path(), files, set, errors, names);
  if (!spec.ok()) return spec.status();
  for (const spec::WorkloadSpec& workload : spec->workloads) {
    if (workload.file.empty() || digests.contains(workload.file)) continue;
    errors->push_back({absl::StatusCode::kInvalidArgument, "input_missing",
                       absl::StrCat("workloads.", workload.name, ".file"),
                       absl::StrCat("'", workload.file, "' is none of the inputs"),
                       "the file must exist where the job file says"});
  }
  if (!errors->empty()) return ToStatus(*errors);
  return spec;
}

Result<std::vector<stats::Slo>> InputStore::PresetsOf(const v1::SubmitJobRequest& request) const {
  for (const v1::JobInput& input : request.inputs()) {
    if (input.path() != kSloPresets) continue;
    POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(PathOf(input.sha256()), kMaxSpecBytes));
    return stats::ReadSlos(text, kSloPresets);
  }
  if (slo_dir_.empty()) return std::vector<stats::Slo>();
  return stats::ReadSloDirectory(slo_dir_);
}

Status InputStore::AddText(const std::string& path, const std::string& text,
                           v1::SubmitJobRequest* request) const {
  const std::string sha256 = Sha256Hex(text);
  if (!Has(sha256)) {
    POOLMARK_ASSIGN_OR_RETURN(Upload upload, Begin(sha256));
    POOLMARK_RETURN_IF_ERROR(upload.Append(text));
    POOLMARK_RETURN_IF_ERROR(upload.Finish().status());
  }
  v1::JobInput* input = request->add_inputs();
  input->set_path(path);
  input->set_sha256(sha256);
  input->set_size(text.size());
  return absl::OkStatus();
}

Status InputStore::AddFromCatalogue(const spec::JobSpec& job, const std::vector<stats::Slo>& slos,
                                    v1::SubmitJobRequest* request) const {
  std::set<std::string> there;
  for (const v1::JobInput& input : request->inputs()) there.insert(input.path());
  for (const spec::StackUse& use : job.uses) {
    if (!there.insert(use.use).second) continue;
    POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadCatalogueStack(stacks_dir_, use.use));
    POOLMARK_RETURN_IF_ERROR(AddText(use.use, text, request));
  }
  if (slos.empty() || there.contains(kSloPresets)) return absl::OkStatus();
  return AddText(kSloPresets, stats::WriteSlos(slos), request);
}

std::map<std::string, std::string> InputStore::FilesOf(const v1::SubmitJobRequest& request) const {
  std::map<std::string, std::string> files;
  for (const v1::JobInput& input : request.inputs()) files[input.path()] = PathOf(input.sha256());
  return files;
}

uint64_t InputStore::RemoveUnused(const std::set<std::string>& keep) const {
  uint64_t freed = 0;
  auto names = ListDir(directory_);
  if (!names.ok()) return 0;
  const time_t now = time(nullptr);
  for (const std::string& name : *names) {
    struct stat info {};
    if (!IsDigest(name) || keep.contains(name) || stat(PathOf(name).c_str(), &info) != 0 ||
        now - info.st_mtime < 3600)
      continue;
    if (RemoveTree(PathOf(name)).ok()) freed += static_cast<uint64_t>(info.st_size);
  }
  return freed;
}

}  // namespace poolmark::controller
