// logs: what a job's processes printed, each line under its process's name when there are several.
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/output/interrupt.h"
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
  void Add(const v1::StreamJobLogsResponse& chunk) {
    const Name name{chunk.machine(), chunk.process()};
    std::string& rest = rest_[name];
    if (chunk.lost_bytes() != 0)
      Print(name, absl::StrCat("[", chunk.lost_bytes(), " bytes were rotated away]"));
    rest += chunk.data();
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
  using Name = std::pair<std::string, std::string>;
  static constexpr size_t kLongestLine = 1u << 20;

  void Print(const Name& name, std::string line) {
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
  std::map<Name, std::string> rest_;
};

}  // namespace

int RunLogs(const JobOptions& options) {
  Interrupt interrupt;
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  v1::StreamJobLogsRequest request;
  request.set_job_id(options.job);
  request.set_machine(options.machine);
  request.set_process(options.process);
  request.set_follow(options.follow);
  request.set_tail_bytes(options.tail_bytes);
  LinePrinter printer(format, options.machine.empty() || options.process.empty());
  Status status = rpc::ReadStream<v1::StreamJobLogsResponse>(
      [&](grpc::ClientContext* context) { return (*session)->stub().StreamLogs(context, request); },
      options.follow ? std::chrono::nanoseconds(0) : std::chrono::minutes(10), interrupt.token(),
      [&](v1::StreamJobLogsResponse& chunk) {
        printer.Add(chunk);
        return true;
      });
  if (interrupt.happened()) return kExitInterrupted;
  return status.ok() ? kExitOk : Fail(WithAdvice(status, (*session)->context()), format);
}

}  // namespace poolmark::cli
