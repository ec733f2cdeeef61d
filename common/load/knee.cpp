#include "common/load/knee.h"

#include <algorithm>
#include <cmath>

namespace poolmark::load {

std::optional<double> KneeSearch::Next() const {
  if (!good_.has_value()) return bad_.has_value() ? std::nullopt : std::optional(options_.first);
  if (!bad_.has_value())
    return *good_ >= options_.most ? std::nullopt : std::optional(std::min(options_.most, *good_ * 2));
  if (*bad_ - *good_ <= options_.resolution * *good_) return std::nullopt;
  const double middle = options_.whole ? std::floor((*good_ + *bad_) / 2) : (*good_ + *bad_) / 2;
  if (middle <= *good_ || middle >= *bad_) return std::nullopt;
  return middle;
}

void KneeSearch::Report(double level, double share) {
  if (share >= options_.share) {
    good_ = std::max(level, good_.value_or(level));
  } else {
    bad_ = std::min(level, bad_.value_or(level));
  }
}

}  // namespace poolmark::load
