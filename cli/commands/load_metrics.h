// `poolmark load --metrics URL`: the token sources of the engines under load, from their own pages, without
// any agent. The pages are read when the measured window begins and after the drain. Not thread-safe.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"
#include "common/http/client.h"
#include "common/load/summary.h"
#include "common/prom/catalogue.h"
#include "common/prom/totals.h"

namespace poolmark::cli {

class MetricsReader {
 public:
  // Asks every page once, so that a wrong URL is refused before any load.
  static Result<std::unique_ptr<MetricsReader>> Open(const std::vector<std::string>& urls);
  // The first call counts; later ones do nothing.
  void ReadStart();
  void ReadEnd();

  // As load.json keeps it (common/load/token_sources.h).
  Json ToJson(const load::Summary& summary) const;

 private:
  struct Reading {
    prom::Totals totals;
    std::map<std::string, double> identity;  // samples that change with a new process
  };
  struct Engine {
    http::Url url;
    std::string dialect;
    bool simulated = false;
    std::string version;  // as the engine itself says; "": it does not
    Reading start, end;
    std::string failure;
    // What of the page's identity changed in between; "": nothing, the process is the same.
    std::string Restarted() const;
  };
  MetricsReader() : client_(http::MakeClient()) {}
  void Read(Engine* engine, Reading* reading);
  const prom::Dialect* DialectOf(const Engine& engine) const;

  // How series add up and what an absent one means; nothing where the catalogue is not installed.
  std::optional<prom::Catalogue> catalogue_;
  std::unique_ptr<http::Client> client_;
  std::vector<Engine> engines_;
  bool started_ = false;
};

}  // namespace poolmark::cli
