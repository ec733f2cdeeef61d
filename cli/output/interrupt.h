// Ctrl-C as a stop token, for commands that follow something. The first SIGINT or SIGTERM requests a stop, a
// second ends the program at once with 130. Make one before any other thread starts (before a Session): it
// blocks the signals in this thread and, by inheritance, in those to come.
#pragma once
#include <memory>
#include <stop_token>

namespace poolmark::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  std::stop_token token() const;
  bool happened() const { return token().stop_requested(); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::cli
