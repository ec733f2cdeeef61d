// One session on its way: which turns may start. Pure; not thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "common/load/source.h"

namespace poolmark::load {

class SessionRun {
 public:
  SessionRun(std::unique_ptr<Session> session, uint64_t number, int user);

  Session& session() { return *session_; }
  uint64_t number() const { return number_; }
  int user() const { return user_; }
  const TurnPlan& plan(uint32_t turn) const { return plans_[turn]; }
  bool wants_answers() const { return wants_answers_; }

  // The turns that depend on no other.
  void Begin(std::vector<uint32_t>* ready);
  // Turn `turn` ended; appends the turns that only waited for it.
  void Ended(uint32_t turn, std::vector<uint32_t>* ready);
  // A turn that was ready will not be sent (or a failed one makes the rest senseless).
  void Dropped();
  // No turn starts any more; returns how many never did.
  uint64_t Abandon();
  // Nothing is in flight or ready, and nothing will be.
  bool over() const { return outstanding_ == 0; }
  // Some turn has not been given as ready yet.
  bool more() const { return !abandoned_ && begun_ < plans_.size(); }

  size_t slot = 0;  // the owner's bookkeeping

 private:
  std::unique_ptr<Session> session_;
  uint64_t number_;
  int user_;
  bool wants_answers_;
  bool abandoned_ = false;
  size_t outstanding_ = 0;  // turns given as ready and not yet ended
  size_t begun_ = 0;        // turns given as ready
  std::vector<TurnPlan> plans_;
  std::vector<uint32_t> waits_for_;               // turns that must still end, by turn
  std::vector<std::vector<uint32_t>> followers_;  // by turn; empty for plain chains
};

}  // namespace poolmark::load
