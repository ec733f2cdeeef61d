// `poolmark quality`: does reused KV still give right answers? Needs no controller.
#pragma once

namespace CLI {
class App;
}

namespace poolmark::cli {

// Registers run, analyze, show, verify, compare and report. Exit codes: analyze 0 PASS, 1 FAIL, 3
// UNDERPOWERED, 4 INVALID; run 0 when every pass was saved; verify 1 with problems; all: 2 refusal or usage,
// 70 a fault of this program, 130 interrupted.
void AddQuality(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
