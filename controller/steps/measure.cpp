#include "controller/steps/measure.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/results/layout.h"
#include "controller/steps/catalogue_use.h"
#include "controller/steps/disk_watch.h"

namespace poolmark::controller {
namespace {

constexpr Nanoseconds kInterval = std::chrono::seconds(1);
constexpr Nanoseconds kLastRounds = std::chrono::seconds(15);

v1::StartSamplingRequest RequestFor(const JobRun& run, const StackPlan& stack, const std::string& machine,
                                    const std::string& tag) {
  v1::StartSamplingRequest request;
  request.set_request_id(run.RequestId(machine, absl::StrCat("sample/", tag)));
  *request.mutable_lease() = run.Lease(machine);
  request.set_host(true);
  for (const PlannedProcess& process : stack.processes) {
    if (process.machine != machine || process.metrics_url.empty()) continue;
    v1::ScrapeTarget* target = request.add_targets();
    target->set_source(process.spec.id());
    target->set_dialect(process.dialect);
    target->set_url(process.metrics_url);
    target->set_interval_ns(kInterval.count());
  }
  for (const spec::MachineSpec& spec : run.job->pool.machines) {
    if (spec.name != machine || !spec.bmc) continue;
    v1::ScrapeTarget* target = request.add_targets();
    target->set_source("bmc");
    const bool redfish = spec.bmc->kind == "redfish";
    target->set_dialect(redfish ? "redfish" : "ipmi-dcmi");
    const std::string login = spec.bmc->login.empty() ? "" : absl::StrCat(spec.bmc->login, "@");
    target->set_url(redfish                     ? absl::StrCat("https://", login, spec.bmc->address)
                    : spec.bmc->address.empty() ? std::string("ipmi://local")
                                                : absl::StrCat("ipmi://", login, spec.bmc->address));
    target->set_interval_ns(Nanoseconds(std::chrono::seconds(5)).count());
  }
  return request;
}

}  // namespace

// One machine's file. Batches that come before the load has begun wait in memory, for its start is second 0.
class Measurement::MachineFile {
 public:
  MachineFile(const JobRun& run, const StackPlan& stack, std::string machine, std::string path)
      : run_(run),
        stack_(stack),
        catalogue_(CatalogueIn(run.catalogue_dir)),
        machine_(std::move(machine)),
        path_(std::move(path)) {}

  Status Take(const v1::StreamSamplesResponse& batch, Nanoseconds start_wall) {
    waiting_.push_back(batch);
    return start_wall.count() == 0 ? absl::OkStatus() : Drain(start_wall);
  }
  Status Finish(Nanoseconds start_wall) {
    POOLMARK_RETURN_IF_ERROR(Drain(start_wall));
    return writer_->Finish();
  }

 private:
  // Two samplings of one file number their series anew: the same series keeps the id that it has in the file,
  // so that its counters go on where they were.
  Status Define(const v1::SeriesDefinition& definition) {
    results::SampleSeries series;
    series.source = definition.source();
    series.name = definition.name();
    for (const v1::Label& label : definition.labels()) series.labels[label.key()] = label.value();
    series.unit = definition.unit();
    series.kind = definition.kind();
    series.adding = AddingOf(series);
    auto [known, added] =
        ids_.try_emplace({series.source, series.name, series.labels}, static_cast<uint32_t>(ids_.size() + 1));
    in_file_[definition.id()] = series.id = known->second;
    return added ? writer_->Series(series) : absl::OkStatus();
  }
  // Only what a process counts is added up; the node's series are each looked at for themselves.
  std::optional<prom::Adding> AddingOf(const results::SampleSeries& series) const {
    for (const PlannedProcess& process : stack_.processes) {
      if (process.spec.id() != series.source) continue;
      const prom::Dialect* dialect = DialectOf(catalogue_.get(), process);
      const prom::Series* known = dialect == nullptr ? nullptr : dialect->Find(series.name);
      if (known != nullptr) return prom::AddingOf(*known);
    }
    return std::nullopt;
  }
  uint32_t InFile(uint32_t id) const {
    const auto known = in_file_.find(id);
    return known == in_file_.end() ? 0 : known->second;
  }

  Status Drain(Nanoseconds start_wall) {
    if (!writer_) {
      start_wall_ = start_wall;
      POOLMARK_ASSIGN_OR_RETURN(writer_, results::SamplesWriter::Create(path_, machine_, IsoUtc(start_wall)));
    }
    for (const v1::StreamSamplesResponse& batch : waiting_) POOLMARK_RETURN_IF_ERROR(Write(batch));
    waiting_.clear();
    return absl::OkStatus();
  }

  // The machine's wall clock on ours: its offset is known from the heartbeats.
  Nanoseconds At(int64_t wall_ns) {
    auto machine = run_.registry->Get(machine_);
    if (machine.ok() && machine->has_clock_offset_ns()) offset_ = Nanoseconds(machine->clock_offset_ns());
    last_at_ = Nanoseconds(wall_ns) - offset_ - start_wall_;
    return last_at_;
  }

  Status Write(const v1::StreamSamplesResponse& batch) {
    for (const v1::SeriesDefinition& definition : batch.series())
      POOLMARK_RETURN_IF_ERROR(Define(definition));
    const Nanoseconds before_gap = last_at_;
    for (const v1::SampleRound& sampled : batch.rounds()) {
      results::SampleRoundRecord round;
      round.at = At(sampled.wall_ns());
      round.source = sampled.source();
      round.duration = Nanoseconds(sampled.duration_ns());
      round.failure = sampled.failure();
      for (const v1::SamplePoint& point : sampled.points()) {
        results::SampleReading reading;
        reading.series = InFile(point.series());
        if (reading.series == 0) continue;  // of a series that was never defined
        if (point.reading_case() == v1::SamplePoint::kValue) {
          reading.value = point.value();
        } else {
          reading.value = NotMeasured{point.reading_case() == v1::SamplePoint::kNotMeasured
                                          ? point.not_measured()
                                          : "the agent gave no reading"};
        }
        round.readings.push_back(std::move(reading));
      }
      POOLMARK_RETURN_IF_ERROR(writer_->Round(round));
      for (const v1::SampleReset& reset : sampled.resets()) {
        POOLMARK_RETURN_IF_ERROR(
            writer_->Reset({round.at, sampled.source(), InFile(reset.series()), reset.reason()}));
      }
    }
    if (batch.has_gap()) POOLMARK_RETURN_IF_ERROR(writer_->Gap({before_gap, last_at_, batch.gap().reason()}));
    // A block every few batches: what is on disk survives a crash of this process.
    if (++batches_ % 10 == 0) return writer_->Flush();
    return absl::OkStatus();
  }

  const JobRun& run_;
  const StackPlan& stack_;
  const std::shared_ptr<const prom::Catalogue> catalogue_;
  const std::string machine_;
  const std::string path_;
  using SeriesKey = std::tuple<std::string, std::string, std::map<std::string, std::string>>;
  std::map<SeriesKey, uint32_t> ids_;     // series -> id in the file
  std::map<uint32_t, uint32_t> in_file_;  // the agent's id -> id in the file
  Nanoseconds start_wall_{0};
  Nanoseconds offset_{0};
  Nanoseconds last_at_{0};
  std::unique_ptr<results::SamplesWriter> writer_;
  std::vector<v1::StreamSamplesResponse> waiting_;
  uint64_t batches_ = 0;
};

Result<std::unique_ptr<Measurement>> Measurement::Start(JobRun* run, const StackPlan& stack,
                                                        const std::string& directory,
                                                        const std::string& tag) {
  POOLMARK_RETURN_IF_ERROR(MakeDirs(directory, 0750));
  std::unique_ptr<Measurement> measurement(new Measurement(run, stack, tag));
  for (const PlannedProcess& process : stack.processes) {
    if (!process.metrics_url.empty()) measurement->unread_.insert(process.spec.id());
  }
  std::mutex mutex;  // failure, run->tools
  Status failure;
  ForEachMachine(run->plan->machines, [&](const std::string& machine) {
    auto link = run->registry->Link(machine);
    auto answer = link.ok() ? (*link)->StartSampling(RequestFor(*run, stack, machine, tag), run->stop)
                            : Result<v1::StartSamplingResponse>(link.status());
    std::lock_guard lock(mutex);
    if (!answer.ok()) {
      if (failure.ok())
        failure = Unavailable(
            machine, absl::StrCat("sampling did not start: ", std::string(answer.status().message())));
      return;
    }
    for (const v1::Tool& tool : answer->tools()) run->tools[machine][tool.name()] = tool;
  });
  POOLMARK_RETURN_IF_ERROR(failure);
  for (const std::string& machine : run->plan->machines) {
    const std::string path = JoinPath(directory, absl::StrCat(machine, ".jsonl.zst"));
    measurement->files_[machine] = path;
    measurement->threads_.emplace_back(
        [m = measurement.get(), machine, path](std::stop_token stop) { m->Follow(machine, path, stop); });
  }
  return measurement;
}

Measurement::~Measurement() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void Measurement::Follow(const std::string& machine, const std::string& path, std::stop_token stop) {
  auto note = [&](const std::string& text) {
    std::lock_guard lock(mutex_);
    notes_.push_back(absl::StrCat("samples of ", machine, ": ", text));
  };
  MachineFile file(*run_, stack_, machine, path);
  const Nanoseconds sampling_began = run_->clock->Wall();
  v1::StreamSamplesRequest request;
  *request.mutable_lease() = run_->Lease(machine);
  bool end = false;
  Status written;
  std::string last_error;
  int starts = 1;
  bool again = false;  // the next batch is the first one of another sampling
  DiskWatch disks;
  while (!stop.stop_requested() && !end && written.ok()) {
    auto link = run_->registry->Link(machine);
    if (link.ok()) {
      Status status = (*link)->StreamSamples(request, stop, [&](v1::StreamSamplesResponse batch) {
        request.set_after_sequence(batch.sequence());
        if (again) batch.mutable_gap()->set_reason("the agent was started again");
        again = false;
        if (batch.has_gap()) note(absl::StrCat("gap: ", batch.gap().reason()));
        written = file.Take(batch, StartWall());
        end = batch.end();
        auto full = disks.Take(batch);
        std::lock_guard lock(mutex_);
        if (full && !full_disk_) full_disk_ = {machine, *std::move(full)};
        if (!written.ok()) stored_ = written;
        if (batch.rounds_size() > 0) ++batches_[machine];
        for (const v1::SampleRound& round : batch.rounds()) {
          if (round.failure().empty()) unread_.erase(round.source());
        }
        return written.ok() && !end && !stop.stop_requested();
      });
      // An agent that was started again samples nothing and numbers from the start.
      if (!status.ok() && ErrorOf(status).code == "not_sampling") {
        Status started = SampleAgain(link->get(), machine, starts, stop);
        if (started.ok()) {
          ++starts;
          again = true;
          disks = DiskWatch();
          request.set_after_sequence(0);
          continue;
        }
        status = std::move(started);
      }
      if (!status.ok()) last_error = std::string(status.message());
    }
    if (!end && !WaitFor(stop, run_->timing.poll)) break;
  }
  if (!end)
    note(written.ok()
             ? absl::StrCat("not complete", last_error.empty() ? "" : absl::StrCat(" (", last_error, ")"))
             : std::string(written.message()));
  // What came is kept, complete or not: its end is marked by the note.
  const Nanoseconds start = StartWall();
  Status finished = file.Finish(start.count() == 0 ? sampling_began : start);
  if (!finished.ok()) note(std::string(finished.message()));
  std::lock_guard lock(mutex_);
  ended_[machine] = true;
}

Status Measurement::SampleAgain(AgentLink* link, const std::string& machine, int starts,
                                std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(
      link->StartSampling(RequestFor(*run_, stack_, machine, absl::StrCat(tag_, "/again-", starts)), stop)
          .status());
  {
    std::lock_guard lock(mutex_);
    if (!ending_) return absl::OkStatus();
  }
  // The request to stop came to an agent that did not sample yet; its last round is taken with this one.
  return link->StopSampling(StopRequest(machine), stop).status();
}

v1::StopSamplingRequest Measurement::StopRequest(const std::string& machine) const {
  v1::StopSamplingRequest request;
  request.set_request_id(run_->RequestId(machine, absl::StrCat("sample-end/", tag_)));
  *request.mutable_lease() = run_->Lease(machine);
  return request;
}

void Measurement::LoadStarted(Nanoseconds wall) {
  std::lock_guard lock(mutex_);
  start_wall_ = wall;
}
Nanoseconds Measurement::StartWall() const {
  std::lock_guard lock(mutex_);
  return start_wall_;
}

bool Measurement::AwaitFirst(Nanoseconds within) {
  const auto wait_for = [&](Nanoseconds most, auto&& done) {
    const Nanoseconds deadline = run_->clock->Steady() + most;
    do {
      std::lock_guard lock(mutex_);
      if (done()) return true;
    } while (run_->clock->Steady() < deadline &&
             WaitFor(run_->stop, std::min<Nanoseconds>(run_->timing.poll, std::chrono::milliseconds(50))));
    return false;
  };
  const bool machines = wait_for(within, [&] {
    return std::all_of(files_.begin(), files_.end(),
                       [&](const auto& file) { return batches_[file.first] > 0; });
  });
  // Whoever stays silent is told from its samples: its changes are not measured.
  if (machines) (void)wait_for(15 * run_->timing.poll, [&] { return unread_.empty(); });
  return machines;
}

Status Measurement::Finish() {
  if (finished_) return absl::OkStatus();
  finished_ = true;
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ForEachMachine(run_->plan->machines, [&](const std::string& machine) {
    if (run_->registry->Silence(machine) > run_->registry->timing().silent) return;
    auto link = run_->registry->Link(machine);
    if (link.ok()) (void)(*link)->StopSampling(StopRequest(machine), run_->stop);
  });
  const Nanoseconds deadline = run_->clock->Steady() + kLastRounds;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (ended_.size() == files_.size()) break;
    }
    if (run_->clock->Steady() >= deadline || !WaitFor(run_->stop, std::chrono::milliseconds(20))) break;
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  return absl::OkStatus();
}

Status Measurement::stored() const {
  std::lock_guard lock(mutex_);
  return stored_;
}

std::optional<std::pair<std::string, std::string>> Measurement::full_disk() const {
  std::lock_guard lock(mutex_);
  return full_disk_;
}

std::vector<std::string> Measurement::notes() const {
  std::lock_guard lock(mutex_);
  return notes_;
}

}  // namespace poolmark::controller
