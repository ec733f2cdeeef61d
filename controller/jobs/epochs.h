// The bound of grants' epochs.
#pragma once
#include <cstdint>

namespace poolmark::controller {

// No controller comes here by granting; what claims to be above it is wrong.
inline constexpr uint64_t kMostEpoch = uint64_t{1} << 53;

}  // namespace poolmark::controller
