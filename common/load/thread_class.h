// How the kernel should run the threads of a load beside other work. All of it only asks: a kernel that does
// not know a wish ignores it, and none needs a privilege. Each call is about the calling thread.
#pragma once
#include <sched.h>

#include <cstdint>
#include <optional>

namespace poolmark::load {

// An event loop: often woken, for little work. A short slice lets it run soon after it was woken, at the
// same share of the processor (EEVDF's slice by sched_setattr, Linux 6.12 and later).
void RunSoonWhenWoken();

// A thread that may be late: what the loops leave over.
void RunInTheBackground();

// How long the calling thread waits for a processor, and a way to wait less. A thread that a server on the
// same machine wakes stays on the server's own processor once it is there, even while another one is idle:
// the kernel takes the waker's processor for a good one and scans small machines for idle ones hardly at all.
// Every first byte then looks as late as what the server writes in one go. For the thread that made it.
class ProcessorWatch {
 public:
  // For the thread `index` of `threads` that share the machine's processors so; `schedstat`: the kernel's
  // file about this thread.
  ProcessorWatch(uint32_t index, uint32_t threads, const char* schedstat = "/proc/thread-self/schedstat");
  ~ProcessorWatch();
  ProcessorWatch(const ProcessorWatch&) = delete;
  ProcessorWatch& operator=(const ProcessorWatch&) = delete;

  // How long the thread was ready to run and had no processor, so far; nothing where the kernel does not
  // tell.
  std::optional<int64_t> WaitedNanoseconds() const;
  // To be called often, with any steady time: where the thread waited for more than its share of the time
  // since the last look, it goes to another of the processors that it was allowed at first, and stays away
  // from this one until it waits elsewhere. Nothing where these threads are as many as the processors: they
  // would only drive each other about. Says whether it went.
  bool Look(int64_t now);

 private:
  int64_t Pause() const;

  uint32_t index_;
  uint32_t threads_;
  int file_;
  int64_t looked_at_ = -1;
  int64_t waited_ = 0;
  int64_t pause_;
  std::optional<cpu_set_t> allowed_;
};

}  // namespace poolmark::load
