// What every job of a controller shares. Set once at start; the objects outlive the runners.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "controller/jobs/store.h"
#include "controller/machines/registry.h"
#include "controller/runner/event_hub.h"
#include "controller/runner/inputs.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

struct Environment {
  Store* store = nullptr;
  Registry* registry = nullptr;
  InputStore* inputs = nullptr;
  EventHub* hub = nullptr;
  const Clock* clock = nullptr;
  StepTiming timing;
  std::string state_dir;
  std::string results_dir;    // <state>/results
  std::string catalogue_dir;  // deploy/catalogue
};

}  // namespace poolmark::controller
