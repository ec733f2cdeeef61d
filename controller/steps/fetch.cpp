#include "controller/steps/fetch.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/units.h"
#include "common/results/layout.h"
#include "controller/steps/room.h"

namespace poolmark::controller {
namespace {

constexpr uint64_t kLogTail = 1u << 20;

Status TooMuch(const std::string& where, std::string message) {
  return ToStatus(
      Error{absl::StatusCode::kOutOfRange, "agent_sends_too_much", where, std::move(message), ""});
}

}  // namespace

Status FetchFile(const JobRun& run, const std::string& machine, const std::string& path,
                 const std::string& to) {
  POOLMARK_ASSIGN_OR_RETURN(AgentLinkPtr link, run.registry->Link(machine));
  const std::string part = to + ".tmp";
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(part, "", 0640));
  Sha256 digest;
  uint64_t have = 0;
  std::optional<uint64_t> announced;
  bool complete = false;
  Status written;
  // Nothing of an agent's is believed to end by itself.
  const auto check = [&](const v1::FetchFileResponse& chunk) -> Status {
    const std::string where = absl::StrCat(machine, ":", path);
    if (announced && chunk.size() != *announced)
      return TooMuch(where,
                     absl::StrCat("the machine said ", *announced, " bytes first, then ", chunk.size()));
    if (!announced) {
      if (chunk.size() > kMaxFetchedBytes)
        return TooMuch(where, absl::StrCat("it has ", FormatBytes(chunk.size()), ", at most ",
                                           FormatBytes(kMaxFetchedBytes), " are fetched"));
      POOLMARK_RETURN_IF_ERROR(RoomForFile(run.results_dir, chunk.size()));
      announced = chunk.size();
    }
    if (have + chunk.data().size() > *announced)
      return TooMuch(where, absl::StrCat("the machine said ", *announced, " bytes and sends more"));
    return absl::OkStatus();
  };
  // A broken stream is resumed from what is on disk.
  for (int attempt = 0; attempt < 5 && !complete && !run.shutdown.stop_requested(); ++attempt) {
    v1::FetchFileRequest request;
    *request.mutable_lease() = run.Lease(machine);
    request.set_path(path);
    request.set_offset(have);
    std::string expected;
    uint64_t size = 0;
    Status status = link->FetchFile(request, run.shutdown, [&](const v1::FetchFileResponse& chunk) {
      written = check(chunk);
      if (written.ok() && !chunk.data().empty()) {
        written = AppendFile(part, chunk.data(), false);
        digest.Update(chunk.data());
        have += chunk.data().size();
      }
      if (written.ok() && chunk.last()) {
        complete = true;
        expected = chunk.sha256();
        size = chunk.size();
      }
      return written.ok();
    });
    if (!written.ok()) {
      (void)RemoveTree(part);
      return written;
    }
    if (complete) {
      const std::string seen = digest.Hex();
      if (seen != expected || have != size) {
        (void)RemoveTree(part);
        return Unavailable(absl::StrCat(machine, ":", path),
                           absl::StrCat("came with ", have, " bytes and SHA-256 ", seen,
                                        ", the machine says ", size, " and ", expected));
      }
      break;
    }
    if (!status.ok() && status.code() != absl::StatusCode::kUnavailable) {
      (void)RemoveTree(part);
      return status;
    }
    WaitFor(run.shutdown, run.timing.poll);
  }
  if (!complete) {
    (void)RemoveTree(part);
    return Unavailable(absl::StrCat(machine, ":", path), "could not be fetched whole");
  }
  return RenameDurably(part, to);
}

Status FetchLog(const JobRun& run, const std::string& machine, const std::string& process,
                const std::string& to) {
  POOLMARK_ASSIGN_OR_RETURN(AgentLinkPtr link, run.registry->Link(machine));
  v1::StreamLogsRequest request;
  *request.mutable_lease() = run.Lease(machine);
  request.set_id(process);
  request.set_tail_bytes(kLogTail);
  request.set_since_start(true);
  std::string text;
  POOLMARK_RETURN_IF_ERROR(link->StreamLogs(request, run.shutdown, [&](const v1::StreamLogsResponse& chunk) {
    if (chunk.lost_bytes() > 0) absl::StrAppend(&text, "[", chunk.lost_bytes(), " bytes rotated away]\n");
    text += chunk.data();
    return text.size() < 2 * kLogTail;
  }));
  return AtomicWriteFile(to, text, 0640);
}

void FetchLogs(const JobRun& run, const StackPlan& stack, uint32_t cycle,
               const std::vector<std::pair<std::string, std::string>>& loads) {
  const std::string directory = JoinPath(run.results_dir, results::CycleLogs(static_cast<int>(cycle)));
  if (!MakeDirs(directory, 0750).ok()) return;
  std::map<std::string, std::vector<std::string>> by_machine;
  for (const PlannedProcess& process : stack.processes) {
    if (!process.attached) by_machine[process.machine].push_back(process.spec.id());
  }
  for (const auto& [machine, load] : loads) by_machine[machine].push_back(load);
  std::vector<std::string> machines;
  for (const auto& [machine, processes] : by_machine) {
    if (run.registry->Silence(machine) < run.registry->timing().silent) machines.push_back(machine);
  }
  ForEachMachine(machines, [&](const std::string& machine) {
    // Logs help people; their absence harms no result.
    for (const std::string& process : by_machine[machine])
      (void)FetchLog(run, machine, process, JoinPath(directory, process + ".log"));
  });
}

}  // namespace poolmark::controller
