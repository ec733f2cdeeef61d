// The controller's HTTP listener: read-only pages with their JSON, reports of finished jobs, /metrics,
// /healthz and /readyz. Loopback addresses only: it knows no users. Thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "common/base/json.h"
#include "common/http/server.h"
#include "controller/runner/manager.h"
#include "controller/web/metrics.h"
#include "controller/web/ticks.h"

namespace poolmark::controller {

class Web {
 public:
  // `address`: "127.0.0.1:7445", port 0: chosen. `extra` adds what only the server knows (connections).
  static Result<std::unique_ptr<Web>> Start(const std::string& address, const JobManager* jobs,
                                            std::function<void(ControllerFigures*)> extra);
  uint16_t port() const { return server_->port(); }

 private:
  Web(const JobManager* jobs, std::function<void(ControllerFigures*)> extra);
  void Answer(const http::ServerRequest& request, http::ResponseWriter* response);
  // Below "/jobs/": a job's page or its report.
  void AnswerJob(const std::string& rest, http::ResponseWriter* response);
  // Below "/api/".
  void AnswerApi(const std::string& rest, const std::string& query, http::ResponseWriter* response);
  Result<Json> JobsJson(const std::string& query);
  Result<Json> JobJson(const std::string& id, const std::string& query);
  Json MachinesJson();
  Result<Json> DescribeJob(const v1::Job& job);
  ControllerFigures Figures();
  // "" when ready, else why not.
  std::string NotReady(double* commit_seconds);

  const JobManager* jobs_;
  std::function<void(ControllerFigures*)> extra_;
  double start_time_ = 0;
  Ticks ticks_;
  std::unique_ptr<http::Server> server_;  // last: its threads use the rest
};

}  // namespace poolmark::controller
