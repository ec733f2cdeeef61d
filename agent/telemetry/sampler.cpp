#include "agent/telemetry/sampler.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "agent/facts/gpus.h"
#include "agent/facts/tools.h"
#include "agent/telemetry/exporters.h"
#include "agent/telemetry/recorder.h"
#include "agent/telemetry/redis_info.h"
#include "agent/telemetry/source.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/version.h"

namespace poolmark::agent {
namespace {

constexpr Nanoseconds kVendorToolInterval =
    std::chrono::seconds(5);  // starting such a tool costs tenths of a second
constexpr Nanoseconds kPerfInterval = std::chrono::seconds(10);

v1::Tool OwnReader(const std::string& part, const std::string& note) {
  v1::Tool tool;
  tool.set_name("poolmark-agent/" + part);
  tool.set_version(Version());
  // The program that reads is this one.
  static const std::string digest = [] {
    std::unique_ptr<char, void (*)(void*)> path(realpath("/proc/self/exe", nullptr), std::free);
    return path == nullptr ? std::string() : Sha256OfFile(path.get()).value_or("");
  }();
  tool.set_sha256(digest);
  tool.set_note(note);
  return tool;
}

// "https://login@address/...": the login's name is taken out of the text.
std::string TakeLogin(std::string* url) {
  const size_t scheme = url->find("://");
  if (scheme == std::string::npos) return "";
  const size_t start = scheme + 3;
  const size_t slash = url->find('/', start);
  const size_t at = url->find('@', start);
  if (at == std::string::npos || (slash != std::string::npos && at > slash)) return "";
  std::string login = url->substr(start, at - start);
  url->erase(start, at - start + 1);
  return login;
}

class SamplerImpl final : public Sampler {
 public:
  explicit SamplerImpl(SamplerOptions options)
      : options_(std::move(options)), recorder_(options_.ring_bytes) {}
  ~SamplerImpl() override { Stop(); }

  Status Prepare();
  void Run();

  std::vector<v1::Tool> tools() const override { return tools_; }
  std::optional<v1::StreamSamplesResponse> Next(uint64_t after_sequence, Nanoseconds wait) override {
    return recorder_.Next(after_sequence, wait);
  }
  uint64_t Stop() override;

 private:
  Status AddTarget(const v1::ScrapeTarget& target);
  Status AddBmc(const v1::ScrapeTarget& target, Nanoseconds interval);
  void AddHost();
  void AddExporters(bool* node_covered, bool* gpus_covered);
  void AddGpus(bool covered);
  void Follow(Source* source, size_t stream, std::stop_token stop);
  void ReadOnce(Source* source, size_t stream);

  SamplerOptions options_;
  const prom::Dialect* host_ = nullptr;
  Recorder recorder_;
  std::vector<v1::Tool> tools_;
  std::vector<Exporter> exporters_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::mutex stop_mutex_;  // one Stop at a time
  std::vector<std::jthread> threads_;
  bool stopped_ = false;
};

Status SamplerImpl::AddTarget(const v1::ScrapeTarget& target) {
  const Nanoseconds interval =
      target.interval_ns() > 0 ? Nanoseconds(target.interval_ns()) : options_.interval;
  if (interval < std::chrono::milliseconds(100)) {
    return InvalidInput(target.source(),
                        absl::StrCat("an interval of ", interval.count(), " ns, at least 100 ms"));
  }
  if (target.dialect() == "redfish" || target.dialect() == "ipmi-dcmi") {
    return AddBmc(target, target.interval_ns() > 0 ? interval : options_.power_interval);
  }
  const prom::Dialect* dialect = options_.catalogue->Find(target.dialect());
  if (dialect == nullptr) {
    return InvalidInput(target.source(), absl::StrCat("no dialect '", target.dialect(), "' in the catalogue"),
                        "see 'poolmark catalogue list'");
  }
  if (dialect->name == "redis") {
    POOLMARK_ASSIGN_OR_RETURN(const auto address, ParseRedisAddress(target.url()));
    sources_.push_back(std::make_unique<RedisSource>(target.source(), interval, options_.scrape_timeout,
                                                     address.first, address.second, dialect));
    return absl::OkStatus();
  }
  PageSource::Options page;
  POOLMARK_ASSIGN_OR_RETURN(page.url, http::ParseUrl(target.url()));
  page.label = target.source();
  page.interval = interval;
  page.timeout = options_.scrape_timeout;
  page.dialect = dialect;
  page.client = options_.client;
  sources_.push_back(std::make_unique<PageSource>(std::move(page)));
  return absl::OkStatus();
}

Status SamplerImpl::AddBmc(const v1::ScrapeTarget& target, Nanoseconds interval) {
  std::string url = target.url();
  const std::string login_name = TakeLogin(&url);
  std::string login;
  if (!login_name.empty()) {
    if (!options_.secret)
      return Precondition(target.source(), absl::StrCat("no secret '", login_name, "' on this machine"));
    POOLMARK_ASSIGN_OR_RETURN(login, options_.secret(login_name));
    if (const size_t colon = login.find(':'); colon == std::string::npos || colon == 0) {
      return Precondition(target.source(),
                          absl::StrCat("secret '", login_name, "' is no login of a BMC: it has no ':'"),
                          "write it as user:password");
    }
  }
  const Nanoseconds timeout = std::max<Nanoseconds>(options_.scrape_timeout, std::chrono::seconds(10));
  if (target.dialect() == "ipmi-dcmi") {
    if (options_.spawner == nullptr)
      return Precondition(target.source(), "no tools may be started on this machine");
    if (url.rfind("ipmi://", 0) != 0)
      return InvalidInput(target.source(), absl::StrCat("'", url, "' is no IPMI address"),
                          "write ipmi://local or ipmi://login@address");
    const std::string address = url.substr(7);
    auto power = std::make_shared<IpmiPower>(options_.spawner, address == "local" ? "" : address, login);
    sources_.push_back(std::make_unique<PowerSource>(
        target.source(), interval, "ipmi-dcmi", [power, timeout] { return power->Read(timeout); }, host_));
    v1::Tool tool;
    const ToolInfo ipmitool = LookUpTool("ipmitool", options_.spawner, options_.root);
    tool.set_name("ipmitool");
    tool.set_version(ipmitool.version);
    tool.set_path(ipmitool.path);
    tool.set_sha256(ipmitool.sha256);
    tool.set_note(absl::StrCat("node power", ipmitool.note.empty() ? "" : ": ", ipmitool.note));
    tools_.push_back(std::move(tool));
    return absl::OkStatus();
  }
  bool verify = true;
  if (const size_t query = url.find("?verify=no"); query != std::string::npos) {
    verify = false;
    url.erase(query);
  }
  POOLMARK_ASSIGN_OR_RETURN(const http::Url base, http::ParseUrl(url));
  auto power = std::make_shared<RedfishPower>(options_.client, base, login, verify);
  sources_.push_back(std::make_unique<PowerSource>(
      target.source(), interval, "redfish", [power, timeout] { return power->Read(timeout); }, host_));
  tools_.push_back(OwnReader("redfish", absl::StrCat("node power from the BMC at ", base.host,
                                                     verify ? "" : ", its certificate was not verified")));
  return absl::OkStatus();
}

void SamplerImpl::AddExporters(bool* node_covered, bool* gpus_covered) {
  if (options_.exporters_file.empty()) return;
  const auto text = options_.exporters_refused.empty()
                        ? ReadFile(options_.exporters_file, 1u << 20)
                        : Result<std::string>(Precondition("", options_.exporters_refused));
  const auto specs = text.ok() ? ReadExporters(*text, options_.exporters_file)
                               : Result<std::vector<ExporterSpec>>(text.status());
  if (!specs.ok()) {
    tools_.push_back(OwnReader("exporters", absl::StrCat("public exporters: none is used, ",
                                                         std::string(specs.status().message()))));
    return;
  }
  const auto has_gpu_of = [this](const std::string& vendor) {
    return std::find(options_.gpu_vendors.begin(), options_.gpu_vendors.end(), vendor) !=
           options_.gpu_vendors.end();
  };
  ExporterContext context;
  context.spawner = options_.spawner;
  context.client = options_.client;
  context.root = options_.root;
  context.keeper = options_.keeper;
  context.make_directory = options_.exporter_directory;
  for (const ExporterSpec& spec : *specs) {
    if (!spec.vendors.empty() && std::none_of(spec.vendors.begin(), spec.vendors.end(), has_gpu_of)) continue;
    auto exporter = options_.catalogue->Find(spec.dialect) == nullptr
                        ? Result<Exporter>(NotFound(
                              spec.name, absl::StrCat("no dialect '", spec.dialect, "' in the catalogue")))
                        : StartExporter(spec, context);
    if (!exporter.ok()) {
      tools_.push_back(OwnReader(
          spec.name, absl::StrCat(spec.measures, ": ", spec.instead, " in place of ", spec.name, " ",
                                  spec.version, ", because: ", ErrorOf(exporter.status()).message)));
      continue;
    }
    v1::Tool tool;
    tool.set_name(spec.name);
    tool.set_version(spec.version);
    tool.set_sha256(exporter->sha256);
    tool.set_path(exporter->path);
    tool.set_note(spec.measures);
    tools_.push_back(std::move(tool));
    exporters_.push_back(std::move(*exporter));
  }
  // GPU power is taken from one of them only: the vendor's exporter, else all-smi, and never all-smi's on
  // AMD.
  bool vendor_exporter = false, all_smi = false;
  for (const Exporter& exporter : exporters_) {
    *node_covered |= exporter.spec.dialect == "node_exporter";
    all_smi |= exporter.spec.dialect == "all-smi";
    vendor_exporter |= exporter.spec.dialect == "dcgm" || exporter.spec.dialect == "amd";
  }
  *gpus_covered = vendor_exporter || (all_smi && !has_gpu_of("amd"));
  for (const Exporter& exporter : exporters_) {
    PageSource::Options page;
    page.label = "node";
    page.interval = options_.interval;
    page.timeout = options_.scrape_timeout;
    page.url = exporter.url;
    page.dialect = options_.catalogue->Find(exporter.spec.dialect);
    page.client = options_.client;
    if (exporter.spec.dialect == "all-smi" && has_gpu_of("amd")) {
      page.power_refused = "all-smi gives AMD GPU power in kilowatts under a name in watts";
    } else if (exporter.spec.dialect == "all-smi" && vendor_exporter) {
      page.power_refused = "GPU power is taken from the vendor's exporter";
    }
    sources_.push_back(std::make_unique<PageSource>(std::move(page)));
  }
}

void SamplerImpl::AddGpus(bool covered) {
  if (covered || options_.spawner == nullptr) return;
  for (const std::string& vendor : options_.gpu_vendors) {
    const std::string name = vendor == "nvidia" ? "nvidia-smi" : "amd-smi";
    const ToolInfo tool = LookUpTool(name, options_.spawner, options_.root);
    if (tool.path.empty()) continue;
    v1::Tool entry;
    entry.set_name(name);
    entry.set_version(tool.version);
    entry.set_path(tool.path);
    entry.set_sha256(tool.sha256);
    entry.set_note("GPU utilisation, memory and power, every 5 s");
    tools_.push_back(std::move(entry));
    sources_.push_back(std::make_unique<GpuSource>(kVendorToolInterval, vendor, options_.spawner, host_));
  }
}

void SamplerImpl::AddHost() {
  bool node_covered = false, gpus_covered = false;
  if (options_.gpu_vendors.empty()) {
    for (const std::string& gpu : GpusOnPci(options_.root)) {
      const std::string vendor = gpu.substr(0, gpu.find(' '));
      if (std::find(options_.gpu_vendors.begin(), options_.gpu_vendors.end(), vendor) ==
          options_.gpu_vendors.end()) {
        options_.gpu_vendors.push_back(vendor);
      }
    }
  }
  AddExporters(&node_covered, &gpus_covered);
  HostSource::Options host;
  host.interval = options_.interval;
  host.root = options_.root;
  host.dialect = host_;
  host.exporter_covers = node_covered;
  if (options_.engines) {
    host.engines = [engines = options_.engines] {
      std::vector<HostSource::Engine> list;
      for (EngineProcess& engine : engines()) list.push_back({std::move(engine.id), engine.pid});
      return list;
    };
  }
  sources_.push_back(std::make_unique<HostSource>(std::move(host)));
  tools_.push_back(OwnReader(
      "host",
      node_covered
          ? "CPU time of engines and RDMA counters that node_exporter does not publish, from /proc and /sys"
          : absl::StrCat(
                "CPU, memory, network, RDMA, drives and CPU time of engines, from /proc and /sys",
                options_.exporters_file.empty()
                    ? ": in place of public exporters, because agent.yaml names none (exporters_file)"
                    : "")));
  if (!options_.directories.empty())
    sources_.push_back(std::make_unique<DiskSource>(options_.interval, options_.directories, host_));
  AddGpus(gpus_covered);
  MemoryEvents events = FindMemoryEvents(options_.root);
  if (events.missing.empty() && (options_.spawner == nullptr || !FindExecutable("perf", options_.root)))
    events.missing = "perf is not installed";
  const bool measured = events.missing.empty();
  tools_.push_back(OwnReader("memory-bandwidth",
                             measured ? "memory-controller bandwidth by perf stat, one second in ten"
                                      : "memory-controller bandwidth: not measured, " + events.missing));
  sources_.push_back(
      std::make_unique<PerfSource>(measured ? kPerfInterval : Nanoseconds(std::chrono::hours(24)),
                                   std::move(events), options_.spawner, host_));
}

Status SamplerImpl::Prepare() {
  if (options_.catalogue == nullptr || options_.client == nullptr)
    return Internal("sampler", "no catalogue or no HTTP client");
  host_ = options_.catalogue->Find("host");
  if (host_ == nullptr) return Internal("sampler", "the catalogue has no dialect 'host'");
  Errors errors;
  for (const v1::ScrapeTarget& target : options_.targets) {
    const Status status = AddTarget(target);
    if (!status.ok()) {
      Error error = ErrorOf(status);
      if (error.where.empty()) error.where = target.source();
      errors.push_back(std::move(error));
    }
  }
  if (!errors.empty()) return ToStatus(errors);
  if (!options_.targets.empty())
    tools_.push_back(OwnReader("scraper", "engine, cache, router and store pages"));
  if (options_.host) AddHost();
  return absl::OkStatus();
}

void SamplerImpl::ReadOnce(Source* source, size_t stream) {
  const Nanoseconds steady = options_.clock->Steady(), wall = options_.clock->Wall();
  const Reading reading = source->Read();
  recorder_.Add(stream, steady, wall, options_.clock->Steady() - steady, reading);
}

void SamplerImpl::Follow(Source* source, size_t stream, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  const auto start = std::chrono::steady_clock::now();
  auto next = start;
  while (!stop.stop_requested()) {
    ReadOnce(source, stream);
    // rounds that were missed are left out, not caught up
    const auto late = std::chrono::steady_clock::now() - next;
    next += source->interval() *
            std::max<int64_t>(1, (late + source->interval() - Nanoseconds(1)) / source->interval());
    std::unique_lock lock(mutex);
    wake.wait_until(lock, stop, next, [] { return false; });
  }
  if (source->last_round()) ReadOnce(source, stream);
}

void SamplerImpl::Run() {
  for (const auto& source : sources_) {
    const size_t stream = recorder_.AddStream(source->label());
    threads_.emplace_back(
        [this, raw = source.get(), stream](std::stop_token stop) { Follow(raw, stream, stop); });
  }
}

uint64_t SamplerImpl::Stop() {
  const std::lock_guard lock(stop_mutex_);
  if (!stopped_) {
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();  // joins
    exporters_.clear();
    recorder_.End();
    stopped_ = true;
  }
  return recorder_.last_sequence();
}

}  // namespace

Result<std::unique_ptr<Sampler>> Sampler::Start(SamplerOptions options) {
  auto sampler = std::make_unique<SamplerImpl>(std::move(options));
  POOLMARK_RETURN_IF_ERROR(sampler->Prepare());
  sampler->Run();
  return std::unique_ptr<Sampler>(std::move(sampler));
}

}  // namespace poolmark::agent
