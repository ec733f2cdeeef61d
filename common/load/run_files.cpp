#include "common/load/run_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/base/zstd_file.h"
#include "common/load/record_codec.h"
#include "common/load/recorder.h"

namespace poolmark::load {
namespace {

// Of a file that is torn off, or not there, what can be read; else every error counts.
Status ReadPart(const std::string& path, bool torn, const std::function<Status(const RequestRecord&)>& each) {
  auto opened = RecordReader::Open(path);
  if (!opened.ok()) return torn ? absl::OkStatus() : opened.status();
  const auto reader = std::move(*opened);
  RequestRecord record;
  for (;;) {
    const Result<bool> more = reader->Next(&record);
    if (!more.ok()) return torn ? absl::OkStatus() : more.status();
    if (!*more) return absl::OkStatus();
    POOLMARK_RETURN_IF_ERROR(each(record));
  }
}

// requests.jsonl.zst, requests.partial.jsonl.zst, requests.N.part.jsonl.zst and the like, also unfinished.
bool IsRecords(std::string_view name) {
  const auto skip = [&name](std::string_view text) {
    const bool there = name.starts_with(text);
    if (there) name.remove_prefix(text.size());
    return there;
  };
  if (!skip("requests.")) return false;
  const size_t digits = std::min(name.size(), name.find_first_not_of("0123456789"));
  if (digits > 0) {
    name.remove_prefix(digits);
    if (!skip(".part.")) return false;
  }
  skip("partial.");
  return skip("jsonl.zst") && (name.empty() || name == ".tmp");
}

}  // namespace

RunFiles::~RunFiles() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

Status RunFiles::Lock() {
  lock_fd_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_fd_ < 0) return FromErrno(directory_, "opening", errno);
  // Where a file system has no locks the load goes on without.
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return absl::OkStatus();
  return Precondition(directory_, "another load is writing there", "give --out another directory");
}

Status RunFiles::Prepare() {
  if (directory_.empty()) return absl::OkStatus();
  POOLMARK_RETURN_IF_ERROR(MakeDirs(directory_));
  POOLMARK_RETURN_IF_ERROR(Lock());
  // Other tools have files of these names, too: ours stand beside a load.json.
  const bool beside_load = FileExists(JoinPath(directory_, "load.json"));
  POOLMARK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(directory_));
  for (const std::string& name : names) {
    const bool by_name = name == "vllm.json" || name == "profile_export.jsonl" ||
                         name == "profile_export_aiperf.json" || name == "report.html";
    const bool ours =
        name == "load.json" || name == "timeline.jsonl" || (by_name && beside_load) || IsRecords(name);
    if (ours) POOLMARK_RETURN_IF_ERROR(RemoveTree(JoinPath(directory_, name)).status());
  }
  return absl::OkStatus();
}

std::string RunFiles::RecordPath(int process) const {
  if (directory_.empty()) return "";
  return JoinPath(directory_, processes_ == 1 ? "requests.jsonl.zst"
                                              : "requests." + std::to_string(process) + ".part.jsonl.zst");
}

void RunFiles::RemoveParts() const {
  if (directory_.empty()) return;
  for (int process = 0; process < processes_; ++process) {
    const std::string path = RecordPath(process);
    for (const std::string& name : {path, path + ".tmp", PartialRecords(path)}) (void)RemoveTree(name);
  }
}

void RunFiles::KeepTorn() const {
  if (directory_.empty()) return;
  for (int process = 0; process < processes_; ++process) {
    const std::string path = RecordPath(process);
    std::error_code none;  // a process that ended well left no such file
    std::filesystem::rename(path + ".tmp", PartialRecords(path), none);
  }
}

void RunFiles::Lost(const Status& why) {
  if (lost_.ok()) lost_ = why;
}

Result<Accumulator> RunFiles::MergeParts(int64_t window_start) {
  Accumulator all;
  all.in_flight.emplace();
  if (directory_.empty())
    return Internal("load", "several processes need a directory for their records", "give --out");
  const std::string path = JoinPath(directory_, "requests.jsonl.zst");
  std::unique_ptr<ZstdWriter> writer;
  const auto give_up = [&](const Status& why) {
    Lost(why);
    writer.reset();
    (void)RemoveTree(path + ".tmp");  // the parts hold more
  };
  if (lost_.ok()) {
    auto created = ZstdWriter::Create(path);
    if (created.ok()) writer = std::move(*created);
    if (!created.ok()) give_up(created.status());
  }
  std::string line;
  for (int process = 0; process < processes_; ++process) {
    const std::string part = RecordPath(process);
    const bool torn = !FileExists(part);
    POOLMARK_RETURN_IF_ERROR(
        ReadPart(torn ? PartialRecords(part) : part, torn, [&](const RequestRecord& record) {
          all.Add(record, window_start);
          if (writer == nullptr) return absl::OkStatus();
          line.clear();
          AppendRecord(record, &line);
          if (const Status written = writer->Write(line); !written.ok()) give_up(written);
          return absl::OkStatus();
        }));
  }
  if (writer != nullptr) {
    if (const Status finished = writer->Finish(); !finished.ok()) give_up(finished);
  }
  if (!lost_.ok()) return all;  // the parts stay
  for (int process = 0; process < processes_; ++process)
    POOLMARK_RETURN_IF_ERROR(RemoveTree(RecordPath(process)).status());
  return all;
}

// Figures before records: where the disk is full, the file with the first records gives up its end.
Status RunFiles::WriteWithRoom(const std::string& name, const std::string& text) {
  const std::string path = JoinPath(directory_, name);
  Status written = AtomicWriteFile(path, text);
  for (int process = 0; process < processes_ && written.code() == absl::StatusCode::kResourceExhausted;
       ++process) {
    const std::string records = PartialRecords(RecordPath(process));
    std::error_code error;
    for (auto size = std::filesystem::file_size(records, error);
         !error && size > 0 && written.code() == absl::StatusCode::kResourceExhausted;) {
      constexpr uintmax_t kLeast = 4096;
      size = size < kLeast ? 0 : size / 2;
      if (truncate(records.c_str(), static_cast<off_t>(size)) != 0) break;
      written = AtomicWriteFile(path, text);
    }
  }
  return written;
}

Status RunFiles::WriteLoadJson(const LoadResult& result, const std::vector<http::Url>& urls) {
  Json json = SummaryJson(result.summary);
  json["started"] = IsoLocal(result.started_wall);
  json["started_wall_ns"] = result.started_wall.count();
  json["window_ns"] = {{"start", result.window.start},
                       {"end", result.window.end},
                       {"load_end", result.window.load_end},
                       {"total_end", result.window.total_end}};
  Json list = Json::array();
  for (const http::Url& url : urls) list.push_back(url.ToString());
  json["urls"] = list;
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(json, 2));
  return WriteWithRoom("load.json", text + "\n");
}

Status RunFiles::WriteTimeline(const LoadResult& result) {
  std::string timeline;
  for (const Tick& tick : result.ticks) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string line, DumpJson(TickJson(tick)));
    timeline += line + "\n";
  }
  return WriteWithRoom("timeline.jsonl", timeline);
}

void RunFiles::Write(const LoadResult& result, const std::vector<http::Url>& urls) {
  if (directory_.empty()) return;
  if (const Status written = WriteLoadJson(result, urls); !written.ok()) Lost(written);
  if (const Status written = WriteTimeline(result); !written.ok()) Lost(written);
}

}  // namespace poolmark::load
