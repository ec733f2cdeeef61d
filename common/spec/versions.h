// Which versions of an engine a stack file is for: `compatible: ">=0.22, <1"`. Pure.
#pragma once
#include <optional>
#include <string_view>

#include "common/base/result.h"

namespace poolmark::spec {

// What is wrong with the text of a range, or OK: comparisons (>=, >, <=, <, ==) with versions, by commas.
Status CheckVersionRange(std::string_view range);

// Whether `version`, as a program gives it ("0.32.1", "v0.5.19", "0.32.0+sim", "b11549"), is in `range`.
// Numbers are compared place by place, absent ones are 0; what follows them ("rc1", "+sim") is not looked at.
// Nothing when the version has no number or the range is no range.
std::optional<bool> InVersionRange(std::string_view range, std::string_view version);

}  // namespace poolmark::spec
