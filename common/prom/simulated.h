// How poolmark-sim shows itself, whatever engine's names it uses: by series of its own and by its version.
// Pure.
#pragma once
#include <string_view>

namespace poolmark::prom {

inline bool IsSimulatedSeries(std::string_view name) {
  return name.starts_with("poolmark_sim_");
}
// "0.32.0+sim": what it says when it is asked as the engine whose names it uses.
inline bool IsSimulatedVersion(std::string_view version) {
  return version.find("+sim") != std::string_view::npos;
}

}  // namespace poolmark::prom
