#include "cli/output/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "cli/output/exit_code.h"

namespace poolmark::cli {

struct Interrupt::State {
  std::stop_source stop;
  int signals = -1;
  int wake = -1;
  std::thread thread;
};

Interrupt::Interrupt() : state_(std::make_unique<State>()) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  state_->signals = signalfd(-1, &set, SFD_CLOEXEC);
  state_->wake = eventfd(0, EFD_CLOEXEC);
  state_->thread = std::thread([state = state_.get()] {
    for (;;) {
      pollfd fds[] = {{state->signals, POLLIN, 0}, {state->wake, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0) continue;
      if (fds[1].revents != 0) return;
      signalfd_siginfo info{};
      if (read(state->signals, &info, sizeof info) != sizeof info) continue;
      if (state->stop.stop_requested()) _exit(kExitInterrupted);
      state->stop.request_stop();
    }
  });
}

Interrupt::~Interrupt() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = write(state_->wake, &one, sizeof one);
  state_->thread.join();
  close(state_->signals);
  close(state_->wake);
}

std::stop_token Interrupt::token() const {
  return state_->stop.get_token();
}

}  // namespace poolmark::cli
