#include "common/load/part.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "common/base/files.h"

namespace poolmark::load {

Result<std::vector<Target>> ResolveTargets(const LoadOptions& options) {
  std::vector<Target> targets;
  std::shared_ptr<http::TlsContext> tls;
  for (const http::Url& url : options.urls) {
    Target target;
    target.url = url;
    POOLMARK_ASSIGN_OR_RETURN(target.addresses, http::Resolve(url));
    if (url.scheme == "https") {
      if (tls == nullptr) {
        POOLMARK_ASSIGN_OR_RETURN(tls, http::TlsContext::Create(options.tls));
      }
      target.tls = tls;
    }
    http::Headers headers = options.headers;
    headers.emplace_back("Content-Type", "application/json");
    headers.emplace_back("Accept", "text/event-stream");
    POOLMARK_ASSIGN_OR_RETURN(target.head, http::RequestHead("POST", url, headers, std::nullopt));
    target.head.resize(target.head.size() - 2);  // the loop adds headers and the blank line
    targets.push_back(std::move(target));
  }
  return targets;
}

Status AllowConnections(uint64_t connections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr uint64_t kOthers = 64;
  if (limit.rlim_cur != RLIM_INFINITY && connections + kOthers > limit.rlim_cur) {
    return Precondition("load",
                        std::to_string(connections) + " connections need more open files than the " +
                            std::to_string(limit.rlim_cur) + " allowed",
                        "raise the limit (ulimit -n, LimitNOFILE=) or spread the load with --processes");
  }
  return absl::OkStatus();
}

// VmHWM, not getrusage: the latter keeps the peak of the program that was running before exec.
uint64_t PeakMemoryBytes() {
  const Result<std::string> status = ReadPseudoFile("/proc/self/status");
  if (!status.ok()) return 0;
  const size_t at = status->find("VmHWM:");
  return at == std::string::npos ? 0 : std::strtoull(status->c_str() + at + 6, nullptr, 10) * 1024;
}

Part::Part(const LoadOptions& options, const std::vector<Target>& targets, SessionSource& source,
           Board& board, int process, int processes)
    : options_(options),
      targets_(targets),
      source_(source),
      board_(board),
      process_(process),
      processes_(processes) {}

Part::~Part() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

Status Part::Start(const std::string& record_path) {
  POOLMARK_ASSIGN_OR_RETURN(recorder_,
                            Recorder::Create(record_path, board_.plan(), options_.warm_up.count(),
                                             options_.warm_up_requests > 0 || options_.warm_up_sessions > 0));
  // Every workers-th user, arrival or session is this machine's, and its loops share those: so parts neither
  // overlap nor leave a gap where machines have different numbers of cores.
  // With several processes the records of all are read again from their files.
  const bool several = processes_ == 1 && options_.loops > 1;
  const uint32_t per_machine = static_cast<uint32_t>(options_.loops * processes_);
  for (int i = 0; i < options_.loops; ++i) {
    const uint32_t local = static_cast<uint32_t>(process_ * options_.loops + i);
    const LoopPart part{options_.worker + options_.workers * local, options_.workers * per_machine};
    loops_.push_back(std::make_unique<Loop>(options_, targets_, source_, board_.plan(), board_.loop(local),
                                            *recorder_->NewSink(several), part));
    POOLMARK_RETURN_IF_ERROR(loops_.back()->Prepare());
  }
  // Signals are the main thread's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (const auto& loop : loops_) threads_.emplace_back([raw = loop.get()] { raw->Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return absl::OkStatus();
}

void Part::Wake() {
  for (const auto& loop : loops_) loop->Wake();
}

Status Part::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  Status finished = recorder_->Finish();
  const uint64_t peak = PeakMemoryBytes();
  std::atomic<uint64_t>& most = board_.plan().max_rss_bytes;
  for (uint64_t before = most; before < peak && !most.compare_exchange_weak(before, peak);) {
  }
  return finished;
}

}  // namespace poolmark::load
