// poolmark-sim: an honest simulated engine and router, for the demo and for tests.
#include "agent/sim/engine_server.h"
#include "agent/sim/options.h"
#include "agent/sim/process.h"
#include "agent/sim/router.h"

int main(int argc, char** argv) {
  using namespace poolmark::sim;
  Command command = ReadCommandLine(argc, argv);
  if (command.kind == Command::Kind::kDone) return command.exit_code;
  PrepareSignals();
  switch (command.kind) {
    case Command::Kind::kEngine:
      return RunEngine(command.engine);
    case Command::Kind::kRouter:
      return RunRouter(command.router);
    case Command::Kind::kChild:
      return RunChild(command.child);
    default:
      return 64;
  }
}
