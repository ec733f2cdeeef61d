// `poolmark compare DIR DIR…`: results of several jobs against the first, or the reasons why they cannot be
// compared. Pure but for reading.
#pragma once
#include <string>
#include <vector>

#include "common/report/recompute.h"
#include "common/results/summary_file.h"

namespace poolmark::report {

// `what` of test points that only one directory has: they are named, and nothing of them is compared.
inline constexpr char kTestPoints[] = "test points";

// Something that is not the same in two directories.
struct Unlike {
  std::string directory;  // the other one
  std::string what;       // "workload code: token_scale"
  std::string first, other;
  bool refuses = false;  // it makes the results incomparable
};

// What the page says and draws of each job.
struct ComparedJob {
  results::JobFile job;
  std::string directory, job_id, started, state, verdict, poolmark_version, machines, engines;
  bool publishable = false;
  std::vector<results::SummaryPoint> points;
  std::vector<results::RepeatFile> repeats;
};

struct JobComparison {
  std::vector<std::string> directories;
  std::vector<ComparedJob> jobs;  // in the order of the directories
  std::vector<Unlike> unlike;
  std::vector<results::SummaryComparison> comparisons;  // `baseline` and `candidate` are "<job>:<stack>"
  std::vector<size_t> candidate_jobs;  // of each comparison, the place of the candidate in `jobs`
  std::vector<std::string> notes;
  // Of every test point of every directory something is compared: of a point without a counterpart, or
  // without a pair of valid repeats, nobody can say that it is no worse.
  bool complete = true;
  bool damaged = false;  // files of some directory are missing or changed, or figures do not follow from them
  bool refused() const;
};

struct CompareOptions {
  bool allow_machines = false;  // other machines, GPUs or networks may differ
};

// Whether a mean of `comparisons[index]` includes the load generator's own delay.
bool IsMarked(const JobComparison& comparison, size_t index);

// An error when a directory cannot be read; what differs is data.
Result<JobComparison> CompareDirectories(const std::vector<std::string>& directories,
                                         const CompareOptions& options);

std::string ComparisonText(const JobComparison& comparison);
Result<std::string> ComparisonJson(const JobComparison& comparison);
std::string ComparisonPage(const JobComparison& comparison);

}  // namespace poolmark::report
