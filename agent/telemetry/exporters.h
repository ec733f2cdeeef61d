// Public exporters, pinned by deploy/exporters.yaml: one is used only when it is installed, its checksum is
// one of those pinned, it reports the pinned version and it listens on the loopback interface (or a Unix
// socket) only. Otherwise the agent's own reader takes its place, and the reason is kept for the manifest.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/facts/command.h"
#include "common/base/result.h"
#include "common/http/client.h"

namespace poolmark::agent {

struct ExporterSpec {
  std::string name;                  // also the executable's name
  std::string version;               // "1.12.1"
  std::vector<std::string> sha256;   // of the executable; empty: none is trusted yet
  std::vector<std::string> argv;     // without the executable; ${port} and ${dir} are filled
  std::string url;                   // "http://127.0.0.1:${port}/metrics", "unix:${dir}/x.sock:/metrics"
  std::string dialect;               // of the catalogue
  std::string measures;              // "NIC, RDMA and TCP counters; CPU, memory and drive I/O"
  std::string instead;               // the own reader that takes its place
  std::vector<std::string> vendors;  // GPU vendors it is for; empty: every machine
};
// Every error of the file at once.
Result<std::vector<ExporterSpec>> ReadExporters(std::string_view yaml, const std::string& where);

// A running exporter; destroying it ends it.
struct Exporter {
  ExporterSpec spec;
  std::string path, sha256;
  http::Url url;
  std::unique_ptr<Child> child;
  std::string directory;  // of its socket; removed with it
  Exporter() = default;
  Exporter(Exporter&&) = default;
  Exporter& operator=(Exporter&&) = delete;
  ~Exporter();
};

struct ExporterContext {
  Spawner* spawner = nullptr;  // asks it for its version
  http::Client* client = nullptr;
  std::string root = "/";
  Nanoseconds ready_within = std::chrono::seconds(5);
  // Runs it: one that ends it whatever becomes of this process. Null: `spawner`.
  Spawner* keeper = nullptr;
  // Makes the directory of its socket, which goes with the pool. Null: a temporary one.
  std::function<Result<std::string>()> make_directory;
};
// Checks and starts it: ready when its page answers. An error says why the own reader takes over.
Result<Exporter> StartExporter(const ExporterSpec& spec, const ExporterContext& context);

}  // namespace poolmark::agent
