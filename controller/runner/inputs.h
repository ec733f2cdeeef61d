// Inputs of jobs, stored by their SHA-256: <state>/inputs/<hex>. What is stored never changes, so a job's
// snapshot is the list of its digests. Thread-safe.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/spec/job.h"
#include "common/stats/requests.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

inline constexpr uint64_t kMaxInputBytes = 16ull << 30;
inline constexpr uint64_t kMaxSpecBytes = 4u << 20;  // YAML files
// The input that holds the goodput presets a job names, as they were when it was submitted.
inline constexpr char kSloPresets[] = "slo-presets";

class InputStore {
 public:
  // `stacks_dir`: the installed catalogue (deploy/stacks); `slo_dir`: its presets, `catalogue_dir`: its
  // dialects (deploy/slo, deploy/catalogue), "": their names are not checked.
  static Result<InputStore> Open(const std::string& directory, const std::string& stacks_dir,
                                 const std::string& slo_dir = "", const std::string& catalogue_dir = "");

  bool Has(const std::string& sha256) const;
  Result<uint64_t> SizeOf(const std::string& sha256) const;
  std::string PathOf(const std::string& sha256) const;

  // A new input in pieces. Finish checks the digest; without it nothing stays.
  class Upload {
   public:
    Upload(Upload&& other) noexcept;
    Upload(const Upload&) = delete;
    ~Upload();
    Status Append(const std::string& bytes);
    // The size.
    Result<uint64_t> Finish();

   private:
    friend class InputStore;
    Upload(const InputStore* store, std::string sha256, std::string part)
        : store_(store), sha256_(std::move(sha256)), part_(std::move(part)) {}
    const InputStore* store_;
    std::string sha256_, part_;
    uint64_t size_ = 0;
  };
  Result<Upload> Begin(const std::string& sha256) const;

  // Reads the job of a request from its inputs and the catalogue. All errors at once: what is missing from
  // the store, what the spec says wrong.
  Result<spec::JobSpec> ReadJob(const v1::SubmitJobRequest& request, Errors* errors) const;
  // The goodput presets that the job may name: those among its inputs, else those of the catalogue.
  Result<std::vector<stats::Slo>> PresetsOf(const v1::SubmitJobRequest& request) const;
  // Puts what the job uses of the catalogue beside its inputs, stacks and presets (`slos`), so that the job
  // keeps what it was submitted with whatever the catalogue says later.
  Status AddFromCatalogue(const spec::JobSpec& job, const std::vector<stats::Slo>& slos,
                          v1::SubmitJobRequest* request) const;
  // Path in the specs -> stored file.
  std::map<std::string, std::string> FilesOf(const v1::SubmitJobRequest& request) const;
  // Removes inputs that none of `keep` names; those of the last hour stay (uploads come before their job).
  uint64_t RemoveUnused(const std::set<std::string>& keep) const;
  const std::string& stacks_dir() const { return stacks_dir_; }

 private:
  Status AddText(const std::string& path, const std::string& text, v1::SubmitJobRequest* request) const;
  InputStore(std::string directory, std::string stacks_dir, std::string slo_dir,
             std::vector<std::string> dialects)
      : directory_(std::move(directory)),
        stacks_dir_(std::move(stacks_dir)),
        slo_dir_(std::move(slo_dir)),
        dialects_(std::move(dialects)) {}
  std::string directory_;
  std::string stacks_dir_;
  std::string slo_dir_;
  std::vector<std::string> dialects_;
};

// A stack of the catalogue: its file name without .yaml -> content. Names with a slash are no catalogue
// names.
Result<std::string> ReadCatalogueStack(const std::string& stacks_dir, const std::string& name);

}  // namespace poolmark::controller
