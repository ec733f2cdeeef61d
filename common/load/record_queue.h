// Finished records on their way to the sink, first in, first out, in a fixed number of places that keep
// their memory. Of one loop; not thread-safe.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "common/load/record.h"

namespace poolmark::load {

class RecordQueue {
 public:
  explicit RecordQueue(size_t places) : places_(places) {}
  size_t size() const { return size_; }
  bool full() const { return size_ == places_.size(); }
  // Takes what `record` holds and leaves an old record with its memory there. Not when full.
  void Push(RequestRecord* record) { std::swap(places_[(first_ + size_++) % places_.size()], *record); }
  // The oldest; only when there is one.
  const RequestRecord& front() const { return places_[first_]; }
  void Pop() {
    first_ = (first_ + 1) % places_.size();
    --size_;
  }

 private:
  std::vector<RequestRecord> places_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace poolmark::load
