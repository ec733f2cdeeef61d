// What the sampler reads on one schedule. A source belongs to one thread.
#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "agent/facts/command.h"
#include "agent/telemetry/ethtool.h"
#include "agent/telemetry/perf.h"
#include "agent/telemetry/point.h"
#include "agent/telemetry/power.h"
#include "agent/telemetry/process_cpu.h"
#include "common/base/clock.h"
#include "common/http/client.h"

namespace poolmark::agent {

class Source {
 public:
  Source(std::string label, Nanoseconds interval, bool last_round)
      : label_(std::move(label)), interval_(interval), last_round_(last_round) {}
  virtual ~Source() = default;
  const std::string& label() const { return label_; }  // "engine-n1", "node"
  Nanoseconds interval() const { return interval_; }
  // Read once more when sampling stops: counters, whose last value counts.
  bool last_round() const { return last_round_; }
  virtual Reading Read() = 0;

 private:
  std::string label_;
  Nanoseconds interval_;
  bool last_round_;
};

// A Prometheus page.
class PageSource final : public Source {
 public:
  struct Options {
    std::string label;
    Nanoseconds interval{};
    Nanoseconds timeout{};
    http::Url url;
    const prom::Dialect* dialect = nullptr;
    http::Client* client = nullptr;
    std::string power_refused;  // why readings in watts of this page are not used; empty: they are
  };
  explicit PageSource(Options options);
  Reading Read() override;

 private:
  Options options_;
  bool had_series_ = false;
};
// The points of one page; apart for tests.
Reading ReadingOf(std::string_view page, const prom::Dialect& dialect, const std::string& power_refused);

// A Redis or Valkey server.
class RedisSource final : public Source {
 public:
  RedisSource(std::string label, Nanoseconds interval, Nanoseconds timeout, std::string host, uint16_t port,
              const prom::Dialect* dialect);
  Reading Read() override;

 private:
  Nanoseconds timeout_;
  std::string host_;
  uint16_t port_;
  const prom::Dialect* dialect_;
};

// The machine itself.
class HostSource final : public Source {
 public:
  struct Engine {
    std::string id;
    int pid = 0;
  };
  struct Options {
    Nanoseconds interval{};
    std::string root = "/";
    const prom::Dialect* dialect = nullptr;
    bool exporter_covers = false;  // node_exporter runs: only what it does not publish
    std::function<std::vector<Engine>()> engines;
  };
  explicit HostSource(Options options);
  Reading Read() override;

 private:
  Options options_;
  ProcessTrees trees_;
  Ethtool ethtool_;
};

// Free space where a job writes. A source of its own: the file system of a server that is gone may not
// answer.
class DiskSource final : public Source {
 public:
  // Of directories on the same file system the first one counts.
  DiskSource(Nanoseconds interval, const std::vector<std::string>& directories, const prom::Dialect* dialect);
  Reading Read() override;

 private:
  std::vector<std::string> paths_;
  const prom::Dialect* dialect_;
};

// GPU load, memory and power by the vendor's tool.
class GpuSource final : public Source {
 public:
  GpuSource(Nanoseconds interval, std::string vendor, Spawner* spawner, const prom::Dialect* dialect);
  Reading Read() override;

 private:
  std::string vendor_;
  Spawner* spawner_;
  const prom::Dialect* dialect_;
};

// Node power by a function that reads it.
class PowerSource final : public Source {
 public:
  PowerSource(std::string label, Nanoseconds interval, std::string reader,
              std::function<Measured<double>()> read, const prom::Dialect* dialect);
  Reading Read() override;

 private:
  std::string reader_;
  std::function<Measured<double>()> read_;
  const prom::Dialect* dialect_;
};

// Memory-controller bandwidth: one second of perf stat in every interval.
class PerfSource final : public Source {
 public:
  PerfSource(Nanoseconds interval, MemoryEvents events, Spawner* spawner, const prom::Dialect* dialect);
  Reading Read() override;

 private:
  MemoryEvents events_;
  Spawner* spawner_;
  const prom::Dialect* dialect_;
};

}  // namespace poolmark::agent
