#include "common/workload/keys.h"

#include <algorithm>

namespace poolmark::workload {
namespace {

// Letters to change, add, leave out or swap with their neighbour.
size_t Distance(const std::string& left, const std::string& right) {
  std::vector<size_t> before_last, last(right.size() + 1), row(right.size() + 1);
  for (size_t j = 0; j <= right.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= left.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= right.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last.back();
}

}  // namespace

std::string NearestKey(const std::string& name, const std::vector<std::string>& known) {
  if (name.size() > 64) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const auto& candidate : known) {
    const size_t distance = Distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace poolmark::workload
