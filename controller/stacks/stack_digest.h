// What makes two runs of a stack the same configuration (decision M25): its definition with its parameters,
// not its name, its ports or its machines. Pure.
#pragma once
#include <string>

#include "common/spec/stack.h"

namespace poolmark::controller {

// 16 hex digits.
std::string StackDigest(const spec::StackSpec& stack);

}  // namespace poolmark::controller
