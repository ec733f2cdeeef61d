// A machine's clock against the controller's, from the four timestamps of heartbeats (decision M9): the
// exchange with the smallest round trip of the last eight counts. What was measured before one of the two
// clocks was set says nothing of now, and goes. Pure; not thread-safe.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/clock.h"

namespace poolmark::controller {

struct ClockReading {
  Nanoseconds offset{0};       // the machine's wall clock minus the controller's
  Nanoseconds uncertainty{0};  // half the round trip
};

class ClockProbe {
 public:
  // A heartbeat came in: t1 sent by the machine's wall clock (and its boot clock), t2 received, t3 answered
  // by ours; `steady` is our steady clock at t2.
  void Received(int64_t t1_wall_ns, int64_t t1_boot_ns, int64_t t2_wall_ns, int64_t t3_wall_ns,
                Nanoseconds steady);
  // The machine says when the answer to the beat sent at `t1_wall_ns` arrived (t4). Unknown beats are
  // ignored.
  void Completed(int64_t t1_wall_ns, int64_t t4_wall_ns);

  // Another boot of the machine: its clocks begin anew.
  void Forget();

  // Of the smallest round trip of the last eight since a clock was set; nothing before the first complete
  // one.
  std::optional<ClockReading> reading() const;
  // The worst reading since `steady`, and the largest step of the machine's wall clock against its boot clock
  // (0: none above 50 ms).
  std::optional<ClockReading> WorstSince(Nanoseconds steady) const;
  Nanoseconds LargestStepSince(Nanoseconds steady) const;

 private:
  struct Beat {
    int64_t t1 = 0, t2 = 0, t3 = 0;
    Nanoseconds steady{0};
  };
  struct Exchange {
    ClockReading reading;
    Nanoseconds steady{0};
  };
  bool WasSet(int64_t t1_wall_ns, int64_t t1_boot_ns, int64_t t2_wall_ns, Nanoseconds steady);
  template <class At>
  static void Trim(std::deque<At>* entries, Nanoseconds now);

  std::deque<Beat> open_;           // beats whose t4 is not known yet
  std::deque<Exchange> exchanges_;  // the last eight
  std::deque<Exchange> history_;    // best readings over time, at most four hours
  struct Step {
    Nanoseconds size{0}, steady{0};
  };
  std::deque<Step> steps_;
  struct Clocks {
    int64_t wall = 0, boot = 0;  // the machine's
    int64_t ours = 0;            // our wall clock
    Nanoseconds steady{0};
  };
  std::optional<Clocks> last_;
};

}  // namespace poolmark::controller
