// What the ways to run a load share: signals, printing, presets. No CLI11 here.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "common/load/engine.h"

namespace poolmark::cli {

// Set by Ctrl-C, SIGTERM and SIGHUP: 1 lets requests in flight end, 2 cuts them off. The latter two cut at
// once: whoever sends SIGTERM waits seconds, engines that hang end no request, and without its terminal the
// program may be ended next.
const std::atomic<int>& LoadStop();
void CatchLoadSignals();

// 2 for what the user can put right in the command, else 1; prints the error, with `output` "json" as JSON.
int LoadFailed(const Status& status, const std::string& output);
// 0, 1 when no request succeeded or files could not be written, 130 after an interruption.
int LoadExitCode(const load::Summary& summary);

// Limits as text or the name of a preset of deploy/slo (beside the program, or POOLMARK_SHARE).
Result<load::Slo> FindSlo(const std::string& text);

// Progress on stderr as asked: text, json, none; "": text on a terminal, else none.
std::function<void(const load::Tick&)> LoadProgress(const std::string& how, bool* line_open);

// A key file's first line without its end.
Result<std::string> ReadKeyFile(const std::string& path);

}  // namespace poolmark::cli
