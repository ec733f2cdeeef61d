#include "common/load/engine.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/load/part.h"
#include "common/load/progress.h"
#include "common/load/run_files.h"

namespace poolmark::load {
namespace {

int CoresAllowed() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

double CpuSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// Runs parts in this process or in forked ones and watches them.
class Run {
 public:
  Run(const LoadOptions& options, SessionSource& source, const RunSettings& settings)
      : options_(options),
        source_(source),
        settings_(settings),
        files_(settings.out_dir, settings.processes) {}

  Result<LoadResult> Go() {
    POOLMARK_ASSIGN_OR_RETURN(targets_, ResolveTargets(options_));
    // The users of a process of this machine, rounded up.
    const uint32_t parts = options_.workers * static_cast<uint32_t>(settings_.processes);
    const uint64_t connections =
        options_.mode == LoadOptions::Mode::kClosed ? (options_.users + parts - 1) / parts : 64;
    POOLMARK_RETURN_IF_ERROR(AllowConnections(connections));
    POOLMARK_ASSIGN_OR_RETURN(board_,
                              Board::Create(static_cast<size_t>(options_.loops * settings_.processes)));
    POOLMARK_RETURN_IF_ERROR(files_.Prepare());
    cpu_before_ = CpuSeconds(RUSAGE_SELF);
    cpu_of_children_before_ = CpuSeconds(RUSAGE_CHILDREN);
    Status started = settings_.processes == 1 ? StartHere() : Fork();
    if (started.ok()) started = WaitUntilReady();
    if (!started.ok()) {
      // Nothing was sent: the loops end, and no file stays that could be taken for a result.
      board_->plan().stop = SharedPlan::kCut;
      board_->plan().start_steady = RealClock().Steady().count();
      if (here_ != nullptr) here_->Wake();
      (void)JoinAll();
      files_.RemoveParts();
      return started;
    }
    Watch();
    if (const Status joined = JoinAll(); !joined.ok()) {
      files_.KeepTorn();
      return joined;
    }
    return Finish();
  }

 private:
  Status StartHere() {
    here_ = std::make_unique<Part>(options_, targets_, source_, *board_, 0, 1);
    return here_->Start(files_.RecordPath(0));
  }

  Status Fork() {
    const pid_t parent = getpid();
    for (int process = 0; process < settings_.processes; ++process) {
      const pid_t child = fork();
      if (child < 0) return FromErrno("load", "fork", errno);
      if (child > 0) {
        children_.push_back(child);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(70);
      // Ctrl-C reaches the whole group; the parent decides and tells through the shared plan.
      for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
      Part part(options_, targets_, source_, *board_, process, settings_.processes);
      Status status = part.Start(files_.RecordPath(process));
      const bool ran = status.ok();
      if (ran) status = part.Join();
      if (!status.ok()) {
        const std::string text = std::string(status.message()) + "\n";
        [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
      }
      _exit(status.ok() ? 0 : ran ? kRecordsLost : 70);
    }
    return absl::OkStatus();
  }

  Status WaitUntilReady() {
    SharedPlan& plan = board_->plan();
    while (plan.ready.load() < board_->loops()) {
      if (Stop() != 0) plan.stop = SharedPlan::kDrain;
      POOLMARK_RETURN_IF_ERROR(CheckChildren());
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    Nanoseconds start = RealClock().Steady() + (settings_.processes == 1 ? std::chrono::milliseconds(2)
                                                                         : std::chrono::milliseconds(40));
    if (settings_.start_at_wall.has_value()) {
      const Nanoseconds ahead = *settings_.start_at_wall - RealClock().Wall();
      if (ahead < Nanoseconds(0))
        return Precondition("load", "the start time is " + FormatDuration(-ahead) + " in the past",
                            "give the workers a later one");
      start = RealClock().Steady() + ahead;
    }
    started_wall_ = RealClock().Wall() + (start - RealClock().Steady());
    start_ = start;
    plan.start_steady.store(start.count(), std::memory_order_release);
    if (here_ != nullptr) here_->Wake();
    cpu_at_start_ = CpuOfParts();
    if (settings_.on_start) settings_.on_start(started_wall_);
    return absl::OkStatus();
  }

  // A load that was stopped before its planned start begins and ends at that moment.
  void BeginNow() {
    start_ = RealClock().Steady();
    started_wall_ = RealClock().Wall();
    board_->plan().start_steady.store(start_.count(), std::memory_order_release);
  }

  // Processor time of the parts until now: of this process, or of those that were forked, ended ones
  // included.
  double CpuOfParts() const {
    if (settings_.processes == 1) return CpuSeconds(RUSAGE_SELF);
    double sum = CpuSeconds(RUSAGE_CHILDREN) - cpu_of_children_before_;
    for (const pid_t child : children_) {
      clockid_t clock;
      timespec used{};
      if (child > 0 && clock_getcpuclockid(child, &clock) == 0 && clock_gettime(clock, &used) == 0)
        sum += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
    }
    return sum;
  }

  int Stop() const { return settings_.stop == nullptr ? 0 : settings_.stop->load(); }
  int64_t LoadTime() const { return (RealClock().Steady() - start_).count(); }

  // A process that could not write its records has measured all the same.
  bool EndedWell(int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == kRecordsLost)
      files_.Lost(Internal(settings_.out_dir, "a load process could not write all its records",
                           "see its message above"));
    return code == 0 || code == kRecordsLost;
  }

  // A process that a signal ended has said nothing itself.
  Status ChildFailed(int status) const {
    if (!WIFSIGNALED(status))
      return Internal("load", "a load process ended with exit code " + std::to_string(WEXITSTATUS(status)),
                      "see its message above");
    const int number = WTERMSIG(status);
    const char* const name = sigabbrev_np(number);
    return Internal("load",
                    "a load process was ended by signal " + std::to_string(number) +
                        (name != nullptr ? std::string(" (SIG") + name + ")" : std::string()) +
                        ", so that the load has no result",
                    "look for who sent it (the kernel does when memory runs out: dmesg); what the processes "
                    "recorded stays in " +
                        JoinPath(settings_.out_dir, "requests.*.jsonl.zst") +
                        " for `poolmark cat`, until the next load there");
  }

  Status CheckChildren() {
    for (pid_t& child : children_) {
      int status = 0;
      if (child <= 0 || waitpid(child, &status, WNOHANG) != child) continue;
      child = 0;
      if (EndedWell(status)) continue;
      board_->plan().stop = SharedPlan::kCut;
      return ChildFailed(status);
    }
    return absl::OkStatus();
  }

  void Watch() {
    Progress progress(*board_, options_);
    SharedPlan& plan = board_->plan();
    int64_t next = settings_.tick_every.count();
    for (;;) {
      bool finished = true;
      bool issuing_over = false;
      for (size_t i = 0; i < board_->loops(); ++i) {
        finished = finished && board_->loop(i).finished.load(std::memory_order_acquire) != 0;
      }
      const int64_t now = LoadTime();
      issuing_over = plan.stop.load() != SharedPlan::kRun ||
                     (options_.duration.has_value() && now >= options_.duration->count());
      if (issuing_over && !load_end_.has_value()) {
        load_end_ = std::min(now, options_.duration.has_value() ? options_.duration->count() : now);
        in_flight_at_end_ = progress.InFlightIntegral(*load_end_);
        cpu_at_end_ = CpuOfParts();
      }
      if (finished) break;
      if (const int stop = Stop(); stop > plan.stop.load()) {
        interrupted_ = true;
        plan.stop = stop;
        if (now < 0) BeginNow();
        if (here_ != nullptr) here_->Wake();
      }
      if (!child_error_.ok()) break;
      child_error_ = CheckChildren();
      if (now >= next) {
        ticks_.push_back(progress.Take(now, load_end_.has_value()));
        if (settings_.on_tick) settings_.on_tick(ticks_.back());
        next += settings_.tick_every.count() *
                std::max<int64_t>(1, (now - next) / settings_.tick_every.count() + 1);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    total_end_ = LoadTime();
    ticks_.push_back(progress.Take(total_end_, load_end_.has_value()));
    ticks_.back().last = true;
    if (settings_.on_tick) settings_.on_tick(ticks_.back());
    if (!load_end_.has_value()) {
      // A load that was to be held and ran out of sessions lasts as long as was asked: its window is then not
      // full, which is a warning, and not a shorter one.
      const bool ran_out = options_.duration.has_value() && AddUp(*board_).ran_out_at >= 0;
      load_end_ = ran_out ? std::max(total_end_, options_.duration->count()) : total_end_;
      in_flight_at_end_ = progress.InFlightIntegral(*load_end_);
      cpu_at_end_ = CpuOfParts();
    }
  }

  Status JoinAll() {
    if (here_ != nullptr) {
      if (const Status written = here_->Join(); !written.ok()) files_.Lost(written);
    }
    Status result = child_error_;
    for (pid_t& child : children_) {
      int status = 0;
      if (child > 0 && waitpid(child, &status, 0) == child && !EndedWell(status) && result.ok()) {
        result = ChildFailed(status);
      }
      child = 0;
    }
    return result;
  }

  Result<LoadResult> Finish() {
    LoadResult result;
    result.started_wall = started_wall_;
    result.ticks = std::move(ticks_);
    Accumulator records;
    if (here_ != nullptr) {
      records = here_->TakeTotals();
    } else {
      POOLMARK_ASSIGN_OR_RETURN(
          records, files_.MergeParts(std::max(options_.warm_up.count(), board_->plan().window_start.load())));
    }
    WindowBounds& window = result.window;
    window.load_end = *load_end_;
    window.total_end = total_end_;
    window.interrupted = interrupted_;
    window.start = std::max(options_.warm_up.count(), board_->plan().window_start.load());
    window.start = std::max<int64_t>(0, window.start);
    // A warm-up that was not over when the load ended leaves an empty window.
    if ((options_.warm_up_requests > 0 || options_.warm_up_sessions > 0) &&
        board_->plan().window_start.load() < 0)
      window.start = total_end_;
    // Where the requests ended the load and not its duration, it is as without one: the window lasts until
    // the last request has ended.
    const bool by_time =
        options_.duration.has_value() && (interrupted_ || *load_end_ >= options_.duration->count());
    window.whole_run = window.start == 0 && !by_time;
    window.end = by_time ? *load_end_ : std::max(window.start, records.last_end);
    if (options_.duration.has_value())
      window.end = std::min(window.end, std::max(window.start, options_.duration->count()));
    result.summary =
        Summarize(records, window, options_, Client(records), settings_.slo, settings_.source_notes);
    POOLMARK_ASSIGN_OR_RETURN(result.summary.load_json,
                              DescribeLoad(options_, settings_.processes, settings_.start_at_wall,
                                           settings_.slo, settings_.source, settings_.source_notes));
    CheckPromptLengths(records, &result.summary);
    if (settings_.prompt_token_sources) {
      POOLMARK_ASSIGN_OR_RETURN(result.summary.prompt_token_sources,
                                settings_.prompt_token_sources(result.summary));
    }
    if (interrupted_)
      result.summary.notes.push_back("the load was interrupted; all that was sent is in the records");
    if (!files_.lost().ok()) {
      result.summary.files_error = std::string(files_.lost().message());
      if (const uint64_t ended = AddUp(*board_).ended; ended > records.requests.size())
        result.summary.notes.push_back(
            "the figures are those of the " + std::to_string(records.requests.size()) +
            " requests whose records could be written, of " + std::to_string(ended) + " that ended");
    }
    files_.Write(result, options_.urls);
    if (!files_.lost().ok()) result.summary.files_error = std::string(files_.lost().message());
    return result;
  }

  // Lengths that are said to be exact are those that the server counts, or the summary says so.
  void CheckPromptLengths(const Accumulator& records, Summary* s) const {
    if (!settings_.source.input_tokens_exact || records.prompts_counted_otherwise == 0) return;
    const auto mean = [&](int64_t tokens) {
      return static_cast<double>(tokens) / static_cast<double>(records.prompts_counted);
    };
    char text[200];
    std::snprintf(text, sizeof text,
                  "the server counted %.2f prompt tokens a request where %.12g were planned as exact",
                  mean(records.prompt_tokens_counted), mean(records.prompt_tokens_planned));
    s->notes.push_back(text);
  }

  ClientFigures Client(const Accumulator& records) {
    ClientFigures client;
    const Totals totals = AddUp(*board_);
    const auto milliseconds = [](std::optional<int64_t> value) {
      return value.has_value() ? std::optional<double>(static_cast<double>(*value) / 1e6) : std::nullopt;
    };
    if (totals.lateness.total() > 0) {
      // A bucket's bound may lie above the largest value.
      client.lateness_p50_ms = milliseconds(std::min(totals.max_lateness, *totals.lateness.Quantile(0.5)));
      client.lateness_p99_ms = milliseconds(std::min(totals.max_lateness, *totals.lateness.Quantile(0.99)));
      client.lateness_max_ms = milliseconds(totals.max_lateness);
    }
    if (totals.schedule_error.total() > 0) {
      client.schedule_error_p50_ms =
          milliseconds(std::min(totals.max_schedule_error, *totals.schedule_error.Quantile(0.5)));
      client.schedule_error_p99_ms =
          milliseconds(std::min(totals.max_schedule_error, *totals.schedule_error.Quantile(0.99)));
      client.schedule_error_max_ms = milliseconds(totals.max_schedule_error);
    }
    if (totals.max_connection_wait > 0)
      client.connection_wait_max_ms = milliseconds(totals.max_connection_wait);
    client.achieved_concurrency =
        *load_end_ > 0 ? static_cast<double>(in_flight_at_end_) / static_cast<double>(*load_end_) : 0;
    client.max_in_flight = totals.max_in_flight_of_a_loop;
    if (records.in_flight.has_value())
      client.max_in_flight = std::max(client.max_in_flight, records.in_flight->Most());
    // A program may run several loads: the children of those before are not this one's.
    const double of_children = CpuSeconds(RUSAGE_CHILDREN) - cpu_of_children_before_;
    client.cpu_seconds = CpuSeconds(RUSAGE_SELF) - cpu_before_ + of_children;
    client.cpu_seconds_of_load = cpu_at_end_ - cpu_at_start_;
    client.max_rss_bytes = board_->plan().max_rss_bytes;
    client.loops = options_.loops;
    client.processes = settings_.processes;
    client.connections = totals.connections;
    client.stale_connections = totals.stale_connections;
    const double loop_time = static_cast<double>(total_end_) * static_cast<double>(board_->loops());
    if (totals.processor_wait >= 0 && loop_time > 0)
      client.processor_wait_share = static_cast<double>(totals.processor_wait) / loop_time;
    client.stale_requests = totals.stale_requests;
    client.own_limits = totals.own_limits;
    client.absurd_usages = totals.absurd_usages;
    client.extra_attempts = totals.extra_attempts;
    client.unfilled_arrivals = totals.unfilled_arrivals;
    client.unsent_arrivals = totals.unsent_arrivals;
    client.abandoned_turns = totals.abandoned_turns;
    client.waited_for_connection = totals.waited_for_connection;
    client.users_without_session = totals.users_without_session;
    client.bytes_in = totals.bytes_in;
    client.events = totals.events;
    // Without a set duration the end of the sessions is the end of the load.
    if (options_.duration.has_value() && totals.ran_out_at >= 0)
      client.ran_out_at_s = static_cast<double>(totals.ran_out_at) / 1e9;
    return client;
  }

  const LoadOptions& options_;
  SessionSource& source_;
  const RunSettings& settings_;
  RunFiles files_;
  std::vector<Target> targets_;
  std::unique_ptr<Board> board_;
  std::unique_ptr<Part> here_;
  std::vector<pid_t> children_;
  Status child_error_;
  Nanoseconds start_{0};
  Nanoseconds started_wall_{0};
  std::optional<int64_t> load_end_;
  int64_t total_end_ = 0;
  uint64_t in_flight_at_end_ = 0;
  double cpu_before_ = 0;
  double cpu_of_children_before_ = 0;
  double cpu_at_start_ = 0;
  double cpu_at_end_ = 0;
  bool interrupted_ = false;
  std::vector<Tick> ticks_;
};

}  // namespace

Result<LoadResult> RunLoad(LoadOptions options, SessionSource& source, const RunSettings& settings) {
  if (settings.processes < 1 || settings.processes > 64) {
    return InvalidInput("load", std::to_string(settings.processes) + " processes are not between 1 and 64");
  }
  if (options.loops == 0) options.loops = DefaultLoops(options, CoresAllowed(), settings.processes);
  // No loop without a user or a connection of its own.
  if (options.mode == LoadOptions::Mode::kClosed)
    options.loops = std::max(1, std::min(options.loops, static_cast<int>(options.users)));
  if (options.max_connections > 0)
    options.loops =
        static_cast<int>(std::min<uint32_t>(static_cast<uint32_t>(options.loops), options.max_connections));
  POOLMARK_RETURN_IF_ERROR(ValidateOptions(options));
  POOLMARK_RETURN_IF_ERROR(CheckConnections(options, settings.processes));
  Run run(options, source, settings);
  return run.Go();
}

}  // namespace poolmark::load
