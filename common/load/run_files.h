// The files of one load in its directory: the records of its processes and their union, timeline.jsonl and
// load.json. A disk that fills up costs records, never figures: why is kept and told. Internal to the engine;
// not thread-safe.
#pragma once
#include <string>
#include <vector>

#include "common/load/accumulator.h"
#include "common/load/engine.h"

namespace poolmark::load {

// What a process ends with that measured well and could not write all its records.
inline constexpr int kRecordsLost = 71;

class RunFiles {
 public:
  // An empty directory: no files.
  RunFiles(std::string directory, int processes) : directory_(std::move(directory)), processes_(processes) {}
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;
  // Makes the directory, takes it for this load alone until the end, and removes an older load's files, so
  // that they are not taken for this one's. Nobody else's files go.
  Status Prepare();
  std::string RecordPath(int process) const;
  // Of a load that did not begin: its empty files of records.
  void RemoveParts() const;
  // What a process that died had written, as PartialRecords().
  void KeepTorn() const;
  // Not all that was measured is in the files; the first reason is kept.
  void Lost(const Status& why);
  const Status& lost() const { return lost_; }
  // The processes' records as one file, and what the summary needs of them. Where some are lost, of those
  // that are there.
  Result<Accumulator> MergeParts(int64_t window_start);
  // timeline.jsonl and load.json; what cannot be written is lost().
  void Write(const LoadResult& result, const std::vector<http::Url>& urls);

 private:
  Status Lock();
  Status WriteWithRoom(const std::string& name, const std::string& text);
  Status WriteLoadJson(const LoadResult& result, const std::vector<http::Url>& urls);
  Status WriteTimeline(const LoadResult& result);

  const std::string directory_;
  const int processes_;
  int lock_fd_ = -1;  // of the directory; below 0: not taken
  Status lost_;
};

}  // namespace poolmark::load
