// `poolmark relay server|client`: one end of the TLS link to a shared store on a public address. Started by a
// job whose stack says `relay: store`; also by hand, to look at one.
#pragma once

namespace CLI {
class App;
}

namespace poolmark::cli {

void AddRelay(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
