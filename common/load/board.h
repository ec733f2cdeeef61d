// The memory that all loops of a load share, in this process or in forked ones. Owned by RunLoad.
#pragma once
#include <cstddef>
#include <memory>

#include "common/base/result.h"
#include "common/load/shared.h"

namespace poolmark::load {

class Board {
 public:
  static Result<std::unique_ptr<Board>> Create(size_t loops);
  ~Board();
  SharedPlan& plan() { return *plan_; }
  LoopLive& loop(size_t index) { return loops_[index]; }
  size_t loops() const { return count_; }

 private:
  Board() = default;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  SharedPlan* plan_ = nullptr;
  LoopLive* loops_ = nullptr;
  size_t count_ = 0;
};

}  // namespace poolmark::load
