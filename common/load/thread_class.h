// How the kernel should run the threads of a load beside other work. Both only ask: a kernel that does not
// know the wish ignores it, and neither needs a privilege. Each call is about the calling thread.
#pragma once
#include <cstdint>
#include <optional>

namespace poolmark::load {

// An event loop: often woken, for little work. A short slice lets it run soon after it was woken, at the
// same share of the processor (EEVDF's slice by sched_setattr, Linux 6.12 and later).
void RunSoonWhenWoken();

// A thread that may be late: what the loops leave over.
void RunInTheBackground();

// How long this thread was ready to run and had no processor, so far; nothing where the kernel does not tell
// (/proc/thread-self/schedstat).
std::optional<int64_t> ProcessorWaitNanoseconds();

}  // namespace poolmark::load
