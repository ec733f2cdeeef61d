// A results directory of which files are changed as somebody would who wants it to be believed: the sums are
// made to fit, and on demand the figures and the summary too.
#pragma once
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/report/recompute.h"
#include "common/results/compute.h"
#include "common/results/layout.h"
#include "common/results/summarize.h"
#include "common/results/sums.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/results/example.h"

namespace poolmark::test {

class Edited {
 public:
  using Change = std::function<void(Json&)>;

  // The example, or a copy of a real directory.
  Edited() { WriteExample(dir_.path()); }
  explicit Edited(const std::string& original) {
    std::filesystem::copy(
        original, dir_.path(),
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  }
  void Edit(const std::string& name, const Change& change) {
    Json json = *ParseJson(*ReadFile(dir_ / name));
    change(json);
    REQUIRE(AtomicWriteFile(dir_ / name, *DumpJson(json)).ok());
  }
  void Write(const std::string& name, const std::string& text) {
    const std::string path = dir_ / name;
    REQUIRE(MakeDirs(path.substr(0, path.rfind('/'))).ok());
    REQUIRE(AtomicWriteFile(path, text).ok());
  }
  const std::string& path() const { return dir_.path(); }

  // The figures of one repeat as its facts now give them, and the summary of all.
  void Fit(const std::string& repeat) {
    const std::string name = JoinPath(repeat, std::string(results::kRepeatFile));
    auto file = results::DecodeRepeat(*ReadFile(dir_ / name), name);
    INFO(file.status().ToString());
    REQUIRE(file.ok());
    auto figures = results::ComputeRepeat(file->facts, (dir_ / repeat) + "/requests.jsonl.zst");
    REQUIRE(figures.ok());
    file->figures = std::move(*figures);
    REQUIRE(AtomicWriteFile(dir_ / name, *results::Encode(*file)).ok());
    auto directory = results::ReadDirectory(dir_.path());
    REQUIRE(directory.ok());
    const auto summary = results::Summarize(directory->job, *directory->manifest, directory->repeats,
                                            results::RequestsIn(dir_.path()));
    REQUIRE(AtomicWriteFile(dir_ / std::string(results::kSummaryFile), *results::Encode(summary)).ok());
  }
  report::Recomputed Judged() {
    REQUIRE(results::WriteSums(dir_.path()).ok());
    auto job = report::Recompute(dir_.path());
    INFO(job.status().ToString());
    REQUIRE(job.ok());
    return *std::move(job);
  }

 private:
  TempDir dir_;
};

}  // namespace poolmark::test
