#include "agent/telemetry/point.h"

#include <algorithm>
#include <cmath>

namespace poolmark::agent {

void PointBuilder::Push(const prom::Series* series, prom::Labels labels, Measured<double> value) {
  if (!series->fold.empty()) {
    std::erase_if(labels, [&](const auto& label) {
      return std::find(series->fold.begin(), series->fold.end(), label.first) != series->fold.end();
    });
    std::string key = series->name;
    for (const auto& [name, text] : labels) key += "\x1f" + name + "\x1f" + text;
    const auto [at, added] = folded_.try_emplace(key, points_.size());
    if (!added) {
      Measured<double>& sum = points_[at->second].value;
      // a sum with a part missing is missing
      if (sum.has_value()) sum = value.has_value() ? Measured<double>(*sum + *value) : value;
      return;
    }
  }
  points_.push_back({series->name, std::move(labels), std::move(value), series});
}

void PointBuilder::Add(const std::string& name, prom::Labels labels, double value) {
  const prom::Series* series = dialect_.Find(name);
  if (series == nullptr) return;
  if (!std::isfinite(value)) {
    Push(series, std::move(labels), NotMeasured{"the page gives no finite number"});
  } else if (series->unit == "watts" && value <= 0) {
    Push(series, std::move(labels), NotMeasured{"0 W is no reading of a machine that runs"});
  } else {
    Push(series, std::move(labels), value * series->factor);
  }
}

void PointBuilder::AddMissing(const std::string& name, prom::Labels labels, std::string reason) {
  const prom::Series* series = dialect_.Find(name);
  if (series != nullptr) Push(series, std::move(labels), NotMeasured{std::move(reason)});
}

}  // namespace poolmark::agent
