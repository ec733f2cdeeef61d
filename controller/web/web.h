// The controller's HTTP listener. Loopback addresses only: it knows no users. Thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "common/http/server.h"
#include "controller/runner/manager.h"
#include "controller/web/pages.h"

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
  ControllerFigures Figures();
  // "" when ready, else why not.
  std::string NotReady(double* commit_seconds);

  const JobManager* jobs_;
  std::function<void(ControllerFigures*)> extra_;
  double start_time_ = 0;
  std::unique_ptr<http::Server> server_;  // last: its threads use the rest
};

}  // namespace poolmark::controller
