#include "common/results/directory.h"

#include <cstdlib>

#include "common/base/files.h"
#include "common/results/layout.h"

namespace poolmark::results {
namespace {

bool OtherVersion(const Status& status) {
  return ErrorOf(status).code == "schema_version";
}

class DirectoryReader {
 public:
  explicit DirectoryReader(Directory* out) : out_(*out) {}

  // Reads one file into `*to`; a file that is not there is a problem only when `wanted`.
  template <class Decode, class T>
  Status Read(const std::string& path, bool wanted, const Decode& decode, T* to) {
    const std::string full = JoinPath(out_.path, path);
    if (!FileExists(full)) {
      if (wanted) out_.problems.push_back({path, "is missing"});
      return absl::OkStatus();
    }
    const auto text = ReadFile(full);
    if (!text.ok()) {
      out_.problems.push_back({path, std::string(text.status().message())});
      return absl::OkStatus();
    }
    auto file = decode(*text, path);
    if (file.ok()) {
      *to = std::move(*file);
      return absl::OkStatus();
    }
    if (OtherVersion(file.status())) return file.status();
    std::string message(file.status().message());
    if (message.starts_with(path + ": ")) message.erase(0, path.size() + 2);  // the problem names it already
    out_.problems.push_back({path, std::move(message)});
    return absl::OkStatus();
  }

  Status ReadCycles() {
    const auto cycles = ListDir(JoinPath(out_.path, "cycles"));
    if (!cycles.ok()) return absl::OkStatus();
    for (const std::string& name : *cycles) {
      const int cycle = std::atoi(name.c_str());
      if (cycle < 1) continue;
      std::optional<VerifyRecord> verify;
      std::optional<TeardownRecord> teardown;
      POOLMARK_RETURN_IF_ERROR(Read(VerifyFile(cycle), false, DecodeVerify, &verify));
      POOLMARK_RETURN_IF_ERROR(Read(TeardownFile(cycle), true, DecodeTeardown, &teardown));
      if (verify) out_.verifies[cycle] = std::move(*verify);
      if (teardown) out_.teardowns[cycle] = std::move(*teardown);
    }
    return absl::OkStatus();
  }

  Status ReadRepeats() {
    const std::string points = JoinPath(out_.path, "points");
    const auto stacks = ListDir(points);
    if (!stacks.ok()) return absl::OkStatus();
    for (const std::string& stack : *stacks) {
      const auto levels = ListDir(JoinPath(points, stack));
      if (!levels.ok()) continue;
      for (const std::string& level : *levels) {
        const auto repeats = ListDir(JoinPath(JoinPath(points, stack), level));
        if (!repeats.ok()) continue;
        for (const std::string& repeat : *repeats) {
          if (!repeat.starts_with("repeat_")) continue;
          const std::string where = "points/" + stack + "/" + level + "/" + repeat;
          const std::string path = where + "/" + std::string(kRepeatFile);
          std::optional<RepeatFile> file;
          POOLMARK_RETURN_IF_ERROR(Read(path, true, DecodeRepeat, &file));
          if (!file) continue;
          // Else a copy would count twice.
          if (DirectoryOf(*file) != where) {
            out_.problems.push_back({path, "is left out: it says that it is " + DirectoryOf(*file)});
          } else {
            out_.repeats.push_back(std::move(*file));
          }
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  Directory& out_;
};

}  // namespace

Result<Directory> ReadDirectory(const std::string& path) {
  Directory out;
  out.path = path;
  const std::string job = JoinPath(path, kJobFile);
  if (!FileExists(job)) return NotFound(path, "has no job.json", "give the results directory of a job");
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(job));
  POOLMARK_ASSIGN_OR_RETURN(out.job, DecodeJob(text, job));
  DirectoryReader reader(&out);
  const bool ran = out.job.state != "REFUSED";
  POOLMARK_RETURN_IF_ERROR(reader.Read(std::string(kManifestFile), ran, DecodeManifest, &out.manifest));
  POOLMARK_RETURN_IF_ERROR(reader.Read(std::string(kPreflightFile), ran, DecodePreflight, &out.preflight));
  POOLMARK_RETURN_IF_ERROR(reader.Read(std::string(kSummaryFile), ran, DecodeSummary, &out.summary));
  POOLMARK_RETURN_IF_ERROR(reader.Read(std::string(kPlanFile), ran, DecodePlan, &out.planned));
  if (out.planned) {
    POOLMARK_ASSIGN_OR_RETURN(out.plan, ReadFile(JoinPath(path, kPlanFile)));
  }
  POOLMARK_RETURN_IF_ERROR(reader.Read(std::string(kInputsFile), false, DecodeInputs, &out.inputs));
  POOLMARK_RETURN_IF_ERROR(reader.ReadCycles());
  POOLMARK_RETURN_IF_ERROR(reader.ReadRepeats());
  return out;
}

std::string DirectoryOf(const RepeatFile& repeat) {
  const PointId& point = repeat.facts.point;
  return RepeatDir(point.stack, point.workload, point.level, repeat.facts.repeat);
}

}  // namespace poolmark::results
