// logs: what a job's processes printed, each line under its process's name when there are several.
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/output/interrupt.h"
#include "cli/output/log_join.h"
#include "cli/remote/commands.h"
#include "cli/remote/follow.h"
#include "cli/remote/show.h"
#include "common/rpc/streams.h"

namespace poolmark::cli {
namespace {

// Cuts chunks into whole lines for each process, so that two of them never share a line.
class LinePrinter {
 public:
  LinePrinter(Format format, bool with_names) : format_(format), with_names_(with_names) {}
  ~LinePrinter() {
    for (auto& [name, rest] : rest_) {
      if (!rest.empty()) Print(name, rest);
    }
  }
  void Add(const LogJoin::Name& name, uint64_t lost, std::string_view data, bool anew) {
    std::string& rest = rest_[name];
    // Another log does not go on in the middle of a line.
    if (anew && !rest.empty()) {
      Print(name, rest);
      rest.clear();
    }
    if (lost != 0) Print(name, absl::StrCat("[", lost, " bytes were rotated away]"));
    rest += data;
    size_t start = 0;
    for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', start)) {
      Print(name, rest.substr(start, end - start));
      start = end + 1;
    }
    rest.erase(0, start);
    if (rest.size() > kLongestLine) {  // an endless line
      Print(name, rest);
      rest.clear();
    }
  }

 private:
  static constexpr size_t kLongestLine = 1u << 20;

  void Print(const LogJoin::Name& name, std::string line) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (format_ != Format::kTable) {
      WriteOut(
          JsonText({{"machine", name.first}, {"process", name.second}, {"line", line}}, Format::kJsonLines));
      return;
    }
    std::string prefix =
        with_names_ ? Coloured(Printable(name.first + " " + name.second), Colour::kDim) + "  " : "";
    WriteOut(prefix + Printable(line) + "\n");
  }

  const Format format_;
  const bool with_names_;
  std::map<LogJoin::Name, std::string> rest_;
};

}  // namespace

int RunLogs(const JobOptions& options) {
  Interrupt interrupt;
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  v1::StreamJobLogsRequest request;
  auto job = GetJob(**session, options.job);
  if (!job.ok()) return Fail(WithAdvice(job.status(), (*session)->context()), format);
  request.set_job_id(job->id());
  request.set_machine(options.machine);
  request.set_process(options.process);
  request.set_follow(options.follow);
  request.set_tail_bytes(options.tail_bytes);
  LinePrinter printer(format, options.machine.empty() || options.process.empty());
  LogJoin join(&RealClock(), [&](const LogJoin::Name& name, uint64_t lost, std::string_view data, bool anew) {
    printer.Add(name, lost, data, anew);
  });
  const auto finish = [&](const Status& status) {
    join.End();
    return status.ok() ? kExitOk : Fail(WithAdvice(status, (*session)->context()), format);
  };
  Reopen reopen(session->get(), job->id(), FollowPlan().patience, TellAway);
  for (;;) {
    Status status = rpc::ReadStream<v1::StreamJobLogsResponse>(
        [&](grpc::ClientContext* context) { return (*session)->stub().StreamLogs(context, request); },
        options.follow ? std::chrono::nanoseconds(0) : std::chrono::minutes(10), interrupt.token(),
        [&](v1::StreamJobLogsResponse& chunk) {
          join.Add({chunk.machine(), chunk.process()}, chunk.offset(), chunk.lost_bytes(), chunk.data());
          return true;
        });
    if (interrupt.happened()) return kExitInterrupted;
    if (!options.follow) return finish(status);
    if (auto over = reopen.After(status, interrupt.token(), Nanoseconds(0))) {
      if (over->end == FollowEnd::kStopped) return kExitInterrupted;
      return finish(over->end == FollowEnd::kJobEnded ? Status() : over->status);
    }
    // The rest of an ended job's logs lies in its results, under other names.
    auto now = GetJob(**session, job->id());
    if (now.ok() && IsTerminal(now->state())) {
      WriteErr(absl::StrCat("job ", job->id(),
                            " has ended meanwhile; all that its processes printed: poolmark logs ", job->id(),
                            "\n"));
      return finish(Status());
    }
    join.Again();
    request.set_tail_bytes(0);
  }
}

}  // namespace poolmark::cli
