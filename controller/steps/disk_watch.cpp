#include "controller/steps/disk_watch.h"

#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace poolmark::controller {

std::optional<std::string> DiskWatch::Take(const v1::StreamSamplesResponse& batch) {
  for (const v1::SeriesDefinition& series : batch.series()) {
    paths_.erase(series.id());
    if (series.source() != "node" || series.name() != "disk_available_bytes") continue;
    for (const v1::Label& label : series.labels()) {
      if (label.key() == "path") paths_[series.id()] = label.value();
    }
  }
  for (const v1::SampleRound& round : batch.rounds()) {
    for (const v1::SamplePoint& point : round.points()) {
      const auto path = paths_.find(point.series());
      if (path == paths_.end() || point.reading_case() != v1::SamplePoint::kValue) continue;
      if (point.value() < kFullBytes)
        return absl::StrCat("the disk of ", path->second,
                            " is full: ", FormatBytes(static_cast<uint64_t>(point.value())), " free");
    }
  }
  return std::nullopt;
}

}  // namespace poolmark::controller
