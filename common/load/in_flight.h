// The most requests that were in flight at once, where several loops, processes or machines each know their
// own only: from the records of all, on one clock. 16 bytes a request. Not thread-safe.
#pragma once
#include <cstdint>
#include <deque>

#include "common/load/record.h"

namespace poolmark::load {

class InFlightSpans {
 public:
  // A request that was never sent adds nothing; of one that was sent again, the last attempt counts.
  void Add(const RequestRecord& record);
  void Merge(const InFlightSpans& other);
  uint64_t Most() const;

 private:
  struct Span {
    int64_t started = 0;
    int64_t end = 0;  // not included
  };
  std::deque<Span> spans_;
};

}  // namespace poolmark::load
