#include "agent/telemetry/source.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "agent/facts/gpus.h"
#include "agent/facts/text.h"
#include "agent/process/redis.h"
#include "agent/telemetry/host_readers.h"
#include "agent/telemetry/redis_info.h"
#include "common/base/json.h"
#include "common/prom/totals.h"

namespace poolmark::agent {
namespace {

Reading Failed(std::string why) {
  Reading reading;
  reading.failure = std::move(why);
  return reading;
}

}  // namespace

Reading ReadingOf(std::string_view text, const prom::Dialect& dialect, const std::string& power_refused) {
  const auto keep = [&dialect](std::string_view name) {
    return dialect.Keeps(name) || dialect.MarksRestart(name);
  };
  const auto page = prom::ParseText(text, {}, keep);
  if (!page.ok()) return Failed(std::string(page.status().message()));
  Reading reading;
  PointBuilder points(dialect);
  for (const prom::Sample& sample : page->samples) {
    if (dialect.MarksRestart(sample.name)) {
      std::string key = sample.name;
      for (const auto& [name, value] : sample.labels) absl::StrAppend(&key, ",", name, "=", value);
      reading.identity.emplace_back(std::move(key), PythonFloat(sample.value));
      continue;
    }
    const prom::Series* series = dialect.Find(sample.name);
    if (!power_refused.empty() && series != nullptr && series->unit == "watts") {
      points.AddMissing(sample.name, sample.labels, power_refused);
      continue;
    }
    points.Add(sample.name, sample.labels, sample.value);
  }
  for (const std::string& name : prom::DeclaredWithoutSample(*page)) points.Add(name, {}, 0);
  reading.points = points.Take();
  return reading;
}

PageSource::PageSource(Options options)
    : Source(options.label, options.interval, true), options_(std::move(options)) {}

Reading PageSource::Read() {
  http::Request request;
  request.url = options_.url;
  request.timeout = options_.timeout;
  request.max_body_bytes = 10u << 20;
  request.headers.emplace_back("Accept", "text/plain;version=0.0.4");
  const auto response = options_.client->Send(request);
  if (!response.ok()) return Failed(std::string(response.status().message()));
  if (response->status != 200)
    return Failed(absl::StrCat(options_.url.ToString(), " answered with status ", response->status));
  Reading reading = ReadingOf(response->body, *options_.dialect, options_.power_refused);
  // A page without any series may belong to a program that has not begun to count. One that had some and lost
  // all of them is no reading: what it said before must not pass for what it says now.
  if (reading.failure.empty() && reading.points.empty() && had_series_)
    return Failed(
        absl::StrCat(options_.url.ToString(), " answered, but none of its series is there any more"));
  had_series_ = had_series_ || !reading.points.empty();
  return reading;
}

RedisSource::RedisSource(std::string label, Nanoseconds interval, Nanoseconds timeout, std::string host,
                         uint16_t port, const prom::Dialect* dialect)
    : Source(std::move(label), interval, true),
      timeout_(timeout),
      host_(std::move(host)),
      port_(port),
      dialect_(dialect) {}

Reading RedisSource::Read() {
  const auto answer = process::RedisCommand(host_, port_, "INFO", timeout_);
  if (!answer.ok()) return Failed(std::string(answer.status().message()));
  const auto info = ParseRedisInfo(*answer);
  if (!info.ok()) return Failed(std::string(info.status().message()));
  return ReadingOf(*info, *dialect_);
}

HostSource::HostSource(Options options)
    : Source("node", options.interval, true),
      options_(std::move(options)),
      trees_(options_.root, static_cast<double>(::sysconf(_SC_CLK_TCK))) {}

Reading HostSource::Read() {
  Reading reading;
  PointBuilder points(*options_.dialect);
  if (options_.exporter_covers) {
    ReadExtraRdmaCounters(options_.root, &points);
  } else {
    ReadProc(options_.root, &points);
    ReadRdmaCounters(options_.root, &points);
    // real cards only: a bridge or a container's interface tells nothing new
    const bool live = options_.root == "/";
    for (const std::string& name : live ? Entries("/", "/sys/class/net") : std::vector<std::string>{}) {
      if (!LinkName("/", "/sys/class/net/" + name + "/device")) continue;
      for (const auto& [statistic, value] : ethtool_.Read(name)) {
        points.Add("ethtool_statistic", {{"device", name}, {"statistic", statistic}},
                   static_cast<double>(value));
      }
    }
  }
  if (options_.engines) {
    trees_.NextRound();
    for (const Engine& engine : options_.engines()) {
      const prom::Labels labels = {{"process", engine.id}};
      const Measured<TreeCpu> cpu = trees_.Read(engine.pid);
      if (cpu.has_value()) {
        points.Add("engine_cpu_seconds_total", labels, (*cpu).seconds);
        points.Add("engine_processes", labels, (*cpu).processes);
      } else {
        points.AddMissing("engine_cpu_seconds_total", labels, cpu.reason());
      }
    }
  }
  reading.points = points.Take();
  return reading;
}

DiskSource::DiskSource(Nanoseconds interval, const std::vector<std::string>& directories,
                       const prom::Dialect* dialect)
    : Source("node", interval, false), dialect_(dialect) {
  std::set<dev_t> seen;
  for (const std::string& path : directories) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && seen.insert(info.st_dev).second) paths_.push_back(path);
  }
}

Reading DiskSource::Read() {
  PointBuilder points(*dialect_);
  for (const std::string& path : paths_) {
    struct statvfs volume {};
    const prom::Labels labels = {{"path", path}};
    if (::statvfs(path.c_str(), &volume) == 0) {
      points.Add("disk_available_bytes", labels,
                 static_cast<double>(volume.f_bavail) * static_cast<double>(volume.f_frsize));
    } else {
      points.AddMissing("disk_available_bytes", labels, std::strerror(errno));
    }
  }
  Reading reading;
  reading.points = points.Take();
  return reading;
}

GpuSource::GpuSource(Nanoseconds interval, std::string vendor, Spawner* spawner, const prom::Dialect* dialect)
    : Source("node", interval, false), vendor_(std::move(vendor)), spawner_(spawner), dialect_(dialect) {}

Reading GpuSource::Read() {
  const bool nvidia = vendor_ == "nvidia";
  const Command& command = nvidia ? NvidiaSmiReadings() : AmdSmiReadings();
  const auto output = RunCommand(*spawner_, command, std::chrono::seconds(10));
  if (!output.ok()) return Failed(std::string(output.status().message()));
  if (!output->ok()) return Failed(Describe(command, *output));
  const auto readings = nvidia ? ParseNvidiaSmiReadings(output->out) : ParseAmdSmiReadings(output->out);
  if (!readings.ok()) return Failed(std::string(readings.status().message()));
  Reading reading;
  PointBuilder points(*dialect_);
  const std::string refused = absl::StrCat(command.argv[0], " gives no value");
  for (const GpuReading& gpu : *readings) {
    const prom::Labels labels = {{"gpu", std::to_string(gpu.index)}, {"uuid", gpu.uuid}};
    const auto add = [&](const char* name, const std::optional<double>& value) {
      if (value) {
        points.Add(name, labels, *value);
      } else {
        points.AddMissing(name, labels, refused);
      }
    };
    add("gpu_power_watts", gpu.power_watts);
    add("gpu_utilization_ratio", gpu.utilization_ratio);
    add("gpu_memory_used_bytes", gpu.memory_used_bytes);
  }
  reading.points = points.Take();
  return reading;
}

PowerSource::PowerSource(std::string label, Nanoseconds interval, std::string reader,
                         std::function<Measured<double>()> read, const prom::Dialect* dialect)
    : Source(std::move(label), interval, false),
      reader_(std::move(reader)),
      read_(std::move(read)),
      dialect_(dialect) {}

Reading PowerSource::Read() {
  Reading reading;
  PointBuilder points(*dialect_);
  const Measured<double> watts = read_();
  if (watts.has_value()) {
    points.Add("node_power_watts", {{"reader", reader_}}, *watts);
  } else {
    points.AddMissing("node_power_watts", {{"reader", reader_}}, watts.reason());
  }
  reading.points = points.Take();
  return reading;
}

PerfSource::PerfSource(Nanoseconds interval, MemoryEvents events, Spawner* spawner,
                       const prom::Dialect* dialect)
    : Source("node", interval, false), events_(std::move(events)), spawner_(spawner), dialect_(dialect) {}

Reading PerfSource::Read() {
  Reading reading;
  PointBuilder points(*dialect_);
  MemoryBandwidth bandwidth{NotMeasured{events_.missing}, NotMeasured{events_.missing}};
  if (events_.missing.empty()) {
    Command command{{"perf", "stat", "-x", ";", "-a"}, {}};
    for (const auto* list : {&events_.read, &events_.write}) {
      for (const std::string& event : *list) command.argv.insert(command.argv.end(), {"-e", event});
    }
    command.argv.insert(command.argv.end(), {"--", "sleep", "1"});
    const auto output = RunCommand(*spawner_, command, std::chrono::seconds(10));
    if (!output.ok() || !output->ok()) {
      const NotMeasured why{output.ok() ? Describe(command, *output)
                                        : std::string(output.status().message())};
      bandwidth = {why, why};
    } else {
      bandwidth = ParsePerfStat(output->err, events_, 1.0);  // perf prints to standard error
    }
  }
  const auto add = [&](const char* name, const Measured<double>& value) {
    if (value.has_value()) {
      points.Add(name, {}, *value);
    } else {
      points.AddMissing(name, {}, value.reason());
    }
  };
  add("memory_controller_read_bytes_per_second", bandwidth.read_bytes_per_second);
  add("memory_controller_write_bytes_per_second", bandwidth.write_bytes_per_second);
  reading.points = points.Take();
  return reading;
}

}  // namespace poolmark::agent
