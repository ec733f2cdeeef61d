// The agent put together: configuration, identity, runs, service, server, registration. main.cpp and the
// component tests make one.
#pragma once
#include <memory>
#include <string>

#include "agent/api/config.h"
#include "common/base/result.h"

namespace poolmark::agent {

class Agent {
 public:
  // `config` need not be complete. Sweeps what died while nobody looked before it serves.
  static Result<std::unique_ptr<Agent>> Start(AgentConfig config);
  // Stops serving; guards and what they own live on.
  ~Agent();
  // host:port that is bound.
  std::string address() const;
  int port() const;
  // Told to the controller; false: it did not answer yet.
  bool registered() const;

 private:
  Agent();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::agent
