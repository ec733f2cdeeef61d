// A job's events on a terminal: lines that stay, and below them one live line with the seven steps' state, a
// bar of the repeats done and the load's rates. Without a terminal: lines only, progress at most every ten
// seconds. Not thread-safe.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::cli {

class WatchView {
 public:
  explicit WatchView(bool live) : live_(live) {}
  ~WatchView() { Clear(); }
  void Show(const v1::JobEvent& event);
  // Takes the live line away.
  void Clear();

 private:
  void Draw();

  const bool live_;
  bool drawn_ = false;
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  v1::JobPosition position_;
  std::string rates_;
  Nanoseconds last_progress_{};
};

// "[######......] 5/12"; empty without a total.
std::string Bar(uint32_t done, uint32_t total, int width);
// At most `width` columns.
std::string Clip(const std::string& text, int width);

// Follows to the end and reports; shared by watch and submit --wait.
class Interrupt;
class Session;
int WatchToEnd(Session& session, const std::string& job_id, Interrupt& interrupt, Nanoseconds timeout);

}  // namespace poolmark::cli
