// How the kernel should run the threads of a load beside other work. Both only ask: a kernel that does not
// know the wish ignores it, and neither needs a privilege. Each call is about the calling thread.
#pragma once

namespace poolmark::load {

// An event loop: often woken, for little work. A short slice lets it run soon after it was woken, at the
// same share of the processor (EEVDF's slice by sched_setattr, Linux 6.12 and later).
void RunSoonWhenWoken();

// A thread that may be late: what the loops leave over.
void RunInTheBackground();

}  // namespace poolmark::load
