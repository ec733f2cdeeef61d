#include "cli/remote/upload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/quality/dataset.h"
#include "common/results/inputs_file.h"
#include "common/spec/read.h"

namespace poolmark::cli {
namespace {

constexpr size_t kChunkBytes = 256u << 10;

std::string DirectoryOf(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}
std::string BaseOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}  // npos + 1 is 0

Result<LocalInput> Describe(const std::string& path, const std::string& file) {
  LocalInput input{path, file, "", 0};
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return FromErrno(file, "reading it", errno);
  if (!S_ISREG(status.st_mode)) return InvalidInput(file, "it is no regular file");
  input.size = static_cast<uint64_t>(status.st_size);
  POOLMARK_ASSIGN_OR_RETURN(input.sha256, Sha256OfFile(file));
  return input;
}

}  // namespace

Result<JobFiles> FilesOfJob(const std::string& job_file) {
  auto read = ReadFile(job_file, 16u << 20);
  if (!read.ok() && read.status().code() == absl::StatusCode::kNotFound)
    return InvalidInput(job_file, "there is no such file", "'poolmark init' writes an example");
  POOLMARK_ASSIGN_OR_RETURN(std::string text, std::move(read));
  JobFiles files;
  files.job_path = BaseOf(job_file);
  POOLMARK_ASSIGN_OR_RETURN(LocalInput job, Describe(files.job_path, job_file));
  files.inputs.push_back(job);
  POOLMARK_ASSIGN_OR_RETURN(auto names, spec::FilesOf(text, job_file));
  for (const std::string& name : names) {
    if (name == files.job_path) continue;
    // A known data set lies in the local Hugging Face cache; the job keeps its name.
    Result<std::string> file = quality::IsKnownDataset(name) ? quality::ResolveDataset(name)
                               : name.front() == '/'
                                   ? Result<std::string>(name)
                                   : Result<std::string>(JoinPath(DirectoryOf(job_file), name));
    auto input = file.ok() ? Describe(name, *file) : Result<LocalInput>(file.status());
    if (input.ok()) {
      files.inputs.push_back(*input);
    } else {
      Error error = ErrorOf(input.status());
      error.kind = absl::StatusCode::kInvalidArgument;
      error.where = absl::StrCat(job_file, " names '", name, "'");
      if (!quality::IsKnownDataset(name)) error.hint = "paths are relative to the job file";
      files.missing.push_back(error);
      files.lacks.push_back(name);
    }
  }
  return files;
}

Result<JobFiles> FilesOfResults(const std::string& directory) {
  const std::string where = JoinPath(directory, results::kInputsFile);
  if (!FileExists(where))
    return InvalidInput(directory, "it has no inputs/inputs.json",
                        "give a results directory that 'poolmark fetch' wrote");
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(where, 16u << 20));
  POOLMARK_ASSIGN_OR_RETURN(results::InputsFile record, results::DecodeInputs(text, where));
  JobFiles files;
  files.job_path = record.job_path;
  files.name = record.name;
  files.set = record.set;
  for (const auto& entry : record.inputs) {
    if (entry.stored.empty()) {
      return InvalidInput(where,
                          absl::StrCat("'", entry.path, "' (", entry.size, " bytes) was too big to keep"),
                          "submit the job file itself, from where that file lies");
    }
    if (entry.stored.find("..") != std::string::npos || entry.stored.front() == '/')
      return InvalidInput(where, absl::StrCat("'", entry.stored, "' leaves the directory"));
    POOLMARK_ASSIGN_OR_RETURN(LocalInput input, Describe(entry.path, JoinPath(directory, entry.stored)));
    if (input.sha256 != entry.sha256) {
      return InvalidInput(input.file,
                          absl::StrCat("its SHA-256 is ", input.sha256, ", recorded is ", entry.sha256),
                          "fetch the results again");
    }
    files.inputs.push_back(input);
  }
  return files;
}

Status Upload(Session& session, const LocalInput& input) {
  int fd = open(input.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FromErrno(input.file, "opening it", errno);
  grpc::ClientContext context;
  rpc::SetDeadline(&context, rpc::Deadline("ControllerService/UploadInput"));
  v1::UploadInputResponse response;
  auto writer = session.stub().UploadInput(&context, &response);
  v1::UploadInputRequest chunk;
  chunk.set_sha256(input.sha256);
  std::string buffer(kChunkBytes, '\0');
  Status read_status;
  bool going = writer->Write(chunk);  // the digest alone: a controller that has the file answers now
  chunk.clear_sha256();
  while (going) {
    ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      read_status = FromErrno(input.file, "reading it", errno);
      context.TryCancel();
      break;
    }
    if (count == 0) break;
    chunk.set_data(buffer.data(), static_cast<size_t>(count));
    going = writer->Write(chunk);
  }
  close(fd);
  writer->WritesDone();
  grpc::Status status = writer->Finish();
  if (!read_status.ok()) return read_status;
  return rpc::FromGrpc(status);
}

}  // namespace poolmark::cli
