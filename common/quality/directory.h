// A results directory on disk: what is read, written and deleted, and in which order, so that a process
// killed at any moment leaves a directory that is read rightly. docs/quality.md describes the files. One
// writer at a time; readers need no lock. Not thread-safe per object.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/quality/codec.h"
#include "common/quality/types.h"

namespace poolmark::quality {

struct LoadedDirectory {
  std::string path;
  Plan plan;
  std::vector<Pass> passes;           // reference_1.., control, candidate
  std::vector<std::string> warnings;  // what was ignored, by name
};

// Keeps other writers out of a results directory while it lives: a second run or analyze is refused.
class DirectoryLock {
 public:
  // The directory must exist.
  static Result<DirectoryLock> Take(const std::string& path);
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

class Directory {
 public:
  // A file above `max_file_bytes` is neither read nor written.
  explicit Directory(std::string path, uint64_t max_file_bytes = kMaxFileBytes)
      : path_(std::move(path)), max_file_bytes_(max_file_bytes) {}
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const;

  // plan.json, or nothing when there is none. Another schema_version is refused.
  // `keep_messages` false drops the prompts.
  Result<std::optional<Plan>> LoadPlan(bool keep_messages = true) const;
  // The first run's plan: manifest.jsonl, then plan.json, whose presence makes both valid. One that
  // LoadPlan() would refuse for its size is not written.
  Status SavePlan(const Plan& plan) const;

  // Plan and every finished pass. Refuses other schema versions, arms of another plan, answers that are not
  // the plan's questions in order. Answers without an arm file are ignored with a warning; .tmp files are
  // never read. `keep_texts` false drops prompts and full responses, which a comparison does not need.
  Result<LoadedDirectory> Load(bool keep_texts) const;
  // Only the arm files' versions and labels: what `run` checks before it starts. A file of a role in
  // `replaced` that cannot be read is no error, its pass goes with the role's next; another schema always is.
  Status CheckArms(const std::vector<std::string>& replaced) const;
  bool HasArm(const std::string& label) const;
  // One finished pass, as Load() checks it; what it warns of goes to `warnings` where given.
  Result<Pass> LoadPass(const Plan& plan, const std::string& label, bool keep_texts,
                        std::vector<std::string>* warnings = nullptr) const;

  // A finished pass: answers first, then how its requests went, the arm file last. Once they are on disk
  // under .tmp, what analyze made of earlier passes goes (summary first), and with the role's first new pass
  // the role's earlier files (each arm file before its answers). One too large to be loaded again is refused
  // before anything changes.
  Status SavePass(const Arm& arm, const std::string& answers_text, const std::optional<RequestLog>& requests,
                  bool first_of_role) const;

  // The text of summary.json or rows.jsonl; where it is missing, the error says what makes it.
  Result<std::string> ReadResult(const std::string& name) const;

  // rows.jsonl, statistics.json, then summary.json. All are on disk under .tmp before the older summary goes,
  // so a full disk, or a file too large to be read again, leaves the last complete state and a summary never
  // stands beside the rows of another analyze.
  Status SaveResults(const std::string& rows, const std::string& statistics,
                     const std::string& summary) const;

 private:
  Status DeleteResults() const;
  Status DeleteRole(const std::string& role) const;
  Result<Arm> LoadArm(const std::string& label) const;
  Result<Pass> LoadPassOf(const Plan& plan, Arm arm, bool keep_texts,
                          std::vector<std::string>* warnings) const;
  Result<std::vector<Arm>> LoadArms(std::vector<std::string>* names) const;
  std::optional<RequestLog> LoadRequests(const Arm& arm, std::vector<std::string>* warnings) const;
  // Refuses to write what no reader would take.
  Status CheckReadable(const std::string& file, uint64_t bytes, const std::string& consequence,
                       const char* hint) const;
  std::string path_;
  uint64_t max_file_bytes_;
};

}  // namespace poolmark::quality
