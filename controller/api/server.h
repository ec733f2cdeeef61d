// The controller as a daemon: opens the store, serves the API, the enrolment and the pages, runs the jobs,
// and ends in order at SIGTERM. Component tests make a Controller of their own; the program calls Serve.
#pragma once
#include <memory>
#include <string>

#include "controller/machines/registry.h"
#include "controller/runner/manager.h"

namespace poolmark::controller {

struct ServeOptions {
  std::string state;                // made by `init`
  std::string catalogue_dir;        // with stacks/, slo/ and catalogue/
  std::string listen;               // "": as in controller.json
  std::string web = "127.0.0.1:0";  // "": no pages; port 0: chosen, see running.json and the log
  Timing timing;
  StepTiming step_timing;
  Retention retention;
  LinkFactory make_link;  // null: gRPC with TLS; tests give their own
};

class Controller {
 public:
  static Result<std::unique_ptr<Controller>> Start(const ServeOptions& options, const Clock* clock);
  // Stops accepting, lets the steps stop (jobs stay where they are), finishes streams, closes the store.
  ~Controller();

  const std::string& address() const;
  const std::string& enroll_address() const;
  int web_port() const;  // 0: none
  JobManager& jobs();
  Registry& registry();
  Store& store();

 private:
  Controller();
  struct State;
  std::unique_ptr<State> state_;
};

// Until SIGTERM or SIGINT. Exit codes: 0 ended by a signal, 1 could not start, 70 a fault of ours.
int Serve(const ServeOptions& options);

}  // namespace poolmark::controller
