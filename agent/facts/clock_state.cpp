#include "agent/facts/clock_state.h"

#include <sys/timex.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "agent/facts/text.h"

namespace poolmark::agent {

std::optional<ClockState> ParseChronyTracking(std::string_view csv) {
  const auto lines = Lines(csv);
  if (lines.size() != 1) return std::nullopt;
  const auto cells = SplitAt(lines[0], ',');
  if (cells.size() != 14 || cells[0].size() != 8) return std::nullopt;
  const auto stratum = ToUint(cells[2]);
  const auto offset = ToDouble(cells[4]), delay = ToDouble(cells[10]), dispersion = ToDouble(cells[11]);
  if (!stratum || !offset || !delay || !dispersion) return std::nullopt;
  ClockState state;
  state.source = "chrony";
  state.synchronised = cells[13] != "Not synchronised";
  state.stratum = static_cast<int>(*stratum);
  state.local_source = cells[0] == "7F7F0101";
  if (state.synchronised) state.bound_seconds = std::abs(*offset) + *dispersion + *delay / 2;
  return state;
}

std::optional<ClockState> ReadKernelClock() {
  timex parameters{};
  const int result = ::adjtimex(&parameters);
  if (result < 0) return std::nullopt;
  ClockState state;
  state.source = "kernel";
  state.synchronised = result != TIME_ERROR && (parameters.status & STA_UNSYNC) == 0;
  if (state.synchronised) state.bound_seconds = static_cast<double>(parameters.maxerror) / 1e6;
  return state;
}

std::optional<ClockState> ReadClock(Spawner* spawner, const std::string& root, std::string* evidence) {
  std::string read;
  std::optional<ClockState> state;
  if (spawner != nullptr) {
    const Command command{{"chronyc", "-c", "tracking"}, {}};
    const auto output = RunCommand(*spawner, command, std::chrono::seconds(5));
    if (output.ok() && output->ok()) state = ParseChronyTracking(output->out);
    if (output.ok())
      read = output->ok() ? absl::StrCat("chronyc: ", output->out) : Describe(command, *output);
  }
  if (!state && root == "/") {
    state = ReadKernelClock();
    if (!state) absl::StrAppend(&read, read.empty() ? "" : "; ", "adjtimex: ", std::strerror(errno));
  }
  if (evidence != nullptr) *evidence = std::move(read);
  return state;
}

}  // namespace poolmark::agent
