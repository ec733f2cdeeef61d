#include "common/load/board.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

namespace poolmark::load {

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free,
              "shared memory needs lock-free atomics");

Result<std::unique_ptr<Board>> Board::Create(size_t loops) {
  std::unique_ptr<Board> board(new Board);
  constexpr size_t kAlign = 4096;
  const size_t plan_bytes = (sizeof(SharedPlan) + kAlign - 1) / kAlign * kAlign;
  board->bytes_ = plan_bytes + loops * sizeof(LoopLive);
  board->memory_ = mmap(nullptr, board->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board->memory_ == MAP_FAILED) {
    board->memory_ = nullptr;
    return FromErrno("load", "mmap", errno);
  }
  board->plan_ = new (board->memory_) SharedPlan;
  char* const first = static_cast<char*>(board->memory_) + plan_bytes;
  board->loops_ = reinterpret_cast<LoopLive*>(first);
  board->count_ = loops;
  for (size_t i = 0; i < loops; ++i) new (first + i * sizeof(LoopLive)) LoopLive;
  return board;
}

Board::~Board() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace poolmark::load
