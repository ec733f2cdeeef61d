// The streams of AgentService: process events, logs, tear-down, files.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/api/beneath.h"
#include "agent/api/convert.h"
#include "agent/api/service.h"
#include "agent/guard/ledger.h"
#include "agent/guard/log_store.h"
#include "common/base/digest.h"
#include "common/base/json.h"
#include "common/base/secrets.h"
#include "common/base/units.h"

namespace poolmark::agent {
namespace {

using guard::Record;

constexpr size_t kChunk = 256u << 10;
constexpr size_t kMaxProgressLine = 64u << 10;

// The progress lines of a run's processes, from where a watcher came in.
class ProgressTail {
 public:
  explicit ProgressTail(std::string log_directory) : log_directory_(std::move(log_directory)) {}

  void Add(const std::string& id, bool from_begin) {
    if (tails_.count(id) != 0) return;
    guard::LogReader reader(Path(id));
    tails_[id].offset = from_begin ? 0 : reader.End();
  }
  // Complete lines that came since; false: the client has gone.
  bool Send(rpc::Outbox<v1::WatchProcessesResponse>& out) {
    for (auto& [id, tail] : tails_) {
      guard::LogPiece piece = guard::LogReader(Path(id)).Read(tail.offset, kChunk);
      if (piece.data.empty()) continue;
      if (piece.lost_bytes > 0) tail.partial.clear();
      tail.offset = piece.offset + piece.data.size();
      tail.partial += piece.data;
      size_t begin = 0;
      for (size_t end; (end = tail.partial.find('\n', begin)) != std::string::npos; begin = end + 1) {
        v1::WatchProcessesResponse message;
        message.set_progress_id(id);
        message.set_progress_json(ValidUtf8(Redacted(tail.partial.substr(begin, end - begin))));
        if (end > begin && !out.Write(std::move(message))) return false;
      }
      tail.partial.erase(0, begin);
      if (tail.partial.size() > kMaxProgressLine) tail.partial.clear();
    }
    return true;
  }

 private:
  struct Tail {
    uint64_t offset = 0;
    std::string partial;
  };
  std::string Path(const std::string& id) const { return absl::StrCat(log_directory_, "/", id, "/out"); }

  std::string log_directory_;
  std::map<std::string, Tail> tails_;
};

// Where the log of the last process of this id begins.
uint64_t LogBegin(const RunInfo& info, const std::string& id) {
  uint64_t begin = 0;
  for (const auto& [number, item] :
       guard::Fold(guard::ReadLedger(info.directory + "/ledger").records).items) {
    if (item.kind == "process" && item.name == id) begin = item.made.Unsigned("log").value_or(begin);
  }
  return begin;
}

Status SendStatus(ActiveRun& run, uint64_t sequence, rpc::Outbox<v1::WatchProcessesResponse>& out) {
  POOLMARK_ASSIGN_OR_RETURN(auto status, run.Ask(Record("status")));
  for (const Record& process : status.data) {
    if (absl::StartsWith(process.Get("id"), kToolPrefix)) continue;
    v1::WatchProcessesResponse message;
    message.set_sequence(sequence);
    *message.mutable_status() = StatusOf(process);
    if (!out.Write(std::move(message))) break;
  }
  return absl::OkStatus();
}

Status WatchRun(std::shared_ptr<ActiveRun> run, uint64_t after,
                rpc::Outbox<v1::WatchProcessesResponse>& out) {
  POOLMARK_ASSIGN_OR_RETURN(auto watch, process::GuardWatch::Connect(run->info().directory, after));
  ProgressTail progress(run->info().directory + "/logs");
  Nanoseconds last_sent = RealClock().Steady();
  while (!out.closed()) {
    auto event = watch->Next(std::chrono::milliseconds(100));
    if (!event.ok() && !absl::IsDeadlineExceeded(event.status())) {
      return Unavailable("guard", "the run's guard has ended", "watch again for what became of it");
    }
    if (event.ok()) {
      uint64_t sequence = event->Unsigned("seq").value_or(0);
      if (event->Get("kind") == "gap") {
        POOLMARK_RETURN_IF_ERROR(SendStatus(*run, sequence, out));
      } else if (event->Get("kind") == "process" && !absl::StartsWith(event->Get("id"), kToolPrefix)) {
        progress.Add(event->Get("id"), after == 0);
        // The lines of a process that ended come before the word of its end.
        if (!progress.Send(out)) break;
        v1::WatchProcessesResponse message;
        message.set_sequence(sequence);
        *message.mutable_status() = StatusOf(*event);
        if (!out.Write(std::move(message))) break;
      }
      last_sent = RealClock().Steady();
      continue;
    }
    if (!progress.Send(out)) break;
    if (RealClock().Steady() - last_sent > std::chrono::seconds(15)) {
      if (!out.Write(v1::WatchProcessesResponse())) break;
      last_sent = RealClock().Steady();
    }
  }
  return absl::OkStatus();
}

// The verdict and the items of an ended run, from its ledger.
Status SendProof(const RunInfo& info, rpc::Outbox<v1::TeardownResponse>& out, bool* finished) {
  guard::LedgerContent content = guard::ReadLedger(info.directory + "/ledger");
  guard::RunState state = guard::Fold(content.records);
  *finished = state.finished;
  v1::TeardownResponse last;
  last.set_last(true);
  for (auto entry = state.items.rbegin(); entry != state.items.rend(); ++entry) {
    v1::TeardownResponse message;
    *message.mutable_item() = ItemOf(entry->second);
    if (!IsGone(message.item().state()))
      last.add_leftovers(absl::StrCat(message.item().kind(), " ", message.item().name()));
    if (!out.Write(std::move(message))) return absl::OkStatus();
  }
  for (const std::string& damage : content.damages) {
    v1::TeardownResponse message;
    message.mutable_item()->set_kind("ledger");
    message.mutable_item()->set_name(damage);
    message.mutable_item()->set_state(v1::LEDGER_ITEM_STATE_UNKNOWN);
    last.add_leftovers(damage);
    if (!out.Write(std::move(message))) return absl::OkStatus();
  }
  last.set_clean(state.finished && state.clean && last.leftovers().empty());
  out.Write(std::move(last));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::WatchProcessesResponse>* AgentService::WatchProcesses(
    grpc::CallbackServerContext* context, const v1::WatchProcessesRequest* request) {
  return streams_->Produce<v1::WatchProcessesResponse>(
      context, [this, request = *request](rpc::Outbox<v1::WatchProcessesResponse>& out) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(auto run, runs_->Find(request.lease().job_id(), request.lease().epoch()));
        return WatchRun(run, request.after_sequence(), out);
      });
}

grpc::ServerWriteReactor<v1::StreamLogsResponse>* AgentService::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) {
  return streams_->Produce<v1::StreamLogsResponse>(
      context, [this, request = *request](rpc::Outbox<v1::StreamLogsResponse>& out) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(RunInfo info,
                                  runs_->FindInfo(request.lease().job_id(), request.lease().epoch()));
        if (!IsName(request.id()))
          return InvalidInput("id", absl::StrCat("'", request.id(), "' is no name of a process"));
        guard::LogReader reader(absl::StrCat(info.directory, "/logs/", request.id(), "/log"));
        uint64_t offset = request.offset();
        if (request.tail_bytes() > 0) {
          uint64_t end = reader.End();
          offset = end > request.tail_bytes() ? end - request.tail_bytes() : 0;
        }
        if (request.since_start()) offset = std::max(offset, LogBegin(info, request.id()));
        while (!out.closed()) {
          guard::LogPiece piece = reader.Read(offset, kChunk);
          if (piece.data.empty()) {
            // A following reader ends with the run; its process may still be started again before that.
            if (!request.follow() || !runs_->Find(request.lease().job_id(), request.lease().epoch()).ok())
              break;
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            continue;
          }
          v1::StreamLogsResponse message;
          message.set_offset(piece.offset);
          message.set_lost_bytes(piece.lost_bytes);
          offset = piece.offset + piece.data.size();
          message.set_data(std::move(piece.data));
          if (!out.Write(std::move(message))) break;
        }
        return absl::OkStatus();
      });
}

// Asks the run's guard and passes on what it sees. UNAVAILABLE: the guard went before its verdict.
Status AgentService::TearDownRun(std::shared_ptr<ActiveRun> run, const v1::TeardownRequest& request,
                                 rpc::Outbox<v1::TeardownResponse>& out, v1::TeardownResponse* last) {
  POOLMARK_ASSIGN_OR_RETURN(auto status, run->Ask(Record("status")));
  // Watch before asking: a guard that has little to do ends at once.
  POOLMARK_ASSIGN_OR_RETURN(auto watch, process::GuardWatch::Connect(run->info().directory,
                                                                     status.ok.Unsigned("last").value_or(0)));
  Record ask("teardown");
  ask.Add("cause", request.cause())
      .Add("keep", request.keep_lease() ? 1 : 0)
      .Add("grace_ns", request.grace_ns());
  if (request.grace_ns() == 0) ask.Add("cut_short", 1);
  POOLMARK_RETURN_IF_ERROR(run->Ask(ask).status());
  run.reset();  // its end must not wait for this stream
  while (!out.closed()) {
    auto event = watch->Next(std::chrono::seconds(1));
    if (!event.ok() && absl::IsDeadlineExceeded(event.status())) continue;
    if (!event.ok()) return event.status();
    if (event->Get("kind") == "item") {
      v1::TeardownResponse message;
      *message.mutable_item() = ItemOf(*event);
      if (!IsGone(message.item().state())) {
        last->add_leftovers(absl::StrCat(message.item().kind(), " ", message.item().name()));
      }
      if (!out.Write(std::move(message))) break;
    } else if (event->Get("kind") == "torn_down") {
      last->set_last(true);
      last->set_clean(event->Get("clean") == "1" && last->leftovers().empty());
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();  // nobody listens any more; the tear-down goes on
}

grpc::ServerWriteReactor<v1::TeardownResponse>* AgentService::Teardown(grpc::CallbackServerContext* context,
                                                                       const v1::TeardownRequest* request) {
  return streams_->Produce<v1::TeardownResponse>(
      context, [this, request = *request](rpc::Outbox<v1::TeardownResponse>& out) -> Status {
        const v1::LeaseId& lease = request.lease();
        // What measures ends before what it measures: a tool whose page goes away would tell of errors.
        if (auto held = runs_->FindToEnd(lease.job_id(), lease.epoch()); held.ok()) {
          line_rate_.StopAll();
          EndSampling((*held)->info().run);
        }
        const Nanoseconds grace = std::max(runs_->config().grace, Nanoseconds(request.grace_ns()));
        Nanoseconds patience = grace + runs_->config().kill_wait + std::chrono::seconds(30);
        Nanoseconds end = RealClock().Steady() + patience;
        while (!out.closed()) {
          auto run = runs_->Find(lease.job_id(), lease.epoch());
          if (!run.ok()) {
            // A later grant of this very job runs here: nothing of it is told or ended.
            if (runs_->IsOutdone(lease.job_id(), lease.epoch())) return run.status();
            // Over already: by an earlier call, by the lease's end, or by the sweep after a dead guard.
            auto info = runs_->FindInfo(lease.job_id(), lease.epoch());
            if (!info.ok()) {
              // Never taken here: the ledgers, written before anything is made, know nothing of it.
              POOLMARK_RETURN_IF_ERROR(runs_->EndWithoutRun(lease.job_id(), lease.epoch()));
              v1::TeardownResponse nothing;
              nothing.set_last(true);
              nothing.set_clean(true);
              out.Write(std::move(nothing));
              return absl::OkStatus();
            }
            if (!runs_->WaitEnded(info->run, patience)) {
              return Unavailable("guard", "its sweep does not end", "ask again");
            }
            // What was left then may have been removed since: the answer is of now.
            guard::RunState state = guard::Fold(guard::ReadLedger(info->directory + "/ledger").records);
            if (state.finished && !state.clean && runs_->SweepAgain(*info))
              runs_->WaitEnded(info->run, patience);
            bool finished = false;
            POOLMARK_RETURN_IF_ERROR(SendProof(*info, out, &finished));
            if (finished && !out.closed()) runs_->Acknowledge(*info);
            return absl::OkStatus();
          }
          RunInfo info = (*run)->info();
          v1::TeardownResponse last;
          Status asked = TearDownRun(std::move(*run), request, out, &last);
          run = Unavailable("", "");
          if (absl::IsUnavailable(asked) && RealClock().Steady() < end) {
            // The guard is gone. Another sweeps after it, and its items are all told again.
            runs_->WaitEnded(info.run, std::chrono::milliseconds(200));
            continue;
          }
          POOLMARK_RETURN_IF_ERROR(asked);
          // The reply says that the machine is free, so let it be.
          if (last.last() && !request.keep_lease() && !runs_->WaitEnded(info.run, std::chrono::seconds(20))) {
            return Unavailable("guard", "it reported its end, but is still there", "ask again");
          }
          if (last.last() && out.Write(std::move(last)) && !request.keep_lease()) runs_->Acknowledge(info);
          return absl::OkStatus();
        }
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::FetchFileResponse>* AgentService::FetchFile(
    grpc::CallbackServerContext* context, const v1::FetchFileRequest* request) {
  return streams_->Produce<v1::FetchFileResponse>(
      context, [this, request = *request](rpc::Outbox<v1::FetchFileResponse>& out) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(RunInfo info,
                                  runs_->FindInfo(request.lease().job_id(), request.lease().epoch()));
        uint64_t size = 0;
        POOLMARK_ASSIGN_OR_RETURN(guard::UniqueFd fd, OpenBeneath(info.work_dir, request.path(), &size));
        if (request.offset() > size) {
          return InvalidInput("offset", absl::StrCat(request.offset(), " is behind the end of ",
                                                     request.path(), " (", size, " bytes)"));
        }
        Sha256 digest;
        std::string buffer(kChunk, '\0');
        uint64_t at = 0;
        while (at < size) {
          ssize_t got = pread(fd.get(), buffer.data(), std::min<uint64_t>(buffer.size(), size - at),
                              static_cast<off_t>(at));
          if (got < 0) return FromErrno(request.path(), "read", errno);
          if (got == 0)
            return Unavailable(request.path(), "the file became shorter while it was read", "fetch it again");
          std::string_view piece(buffer.data(), static_cast<size_t>(got));
          digest.Update(piece);
          uint64_t end = at + piece.size();
          if (end > request.offset()) {
            v1::FetchFileResponse message;
            message.set_data(std::string(piece.substr(request.offset() > at ? request.offset() - at : 0)));
            message.set_size(size);
            if (!out.Write(std::move(message))) return absl::OkStatus();
          }
          at = end;
        }
        v1::FetchFileResponse last;
        last.set_size(size);
        last.set_sha256(digest.Hex());
        last.set_last(true);
        out.Write(std::move(last));
        return absl::OkStatus();
      });
}

}  // namespace poolmark::agent
