// Joins what is read of logs that are followed over interruptions, so that no byte is told twice or left out.
// A stream that is opened again begins every log at its beginning: what was told before is recognised by its
// content, for a log of the same name may meanwhile be another one (a process that was started anew). What
// cannot be told apart yet is held, for seconds at most. Not thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"

namespace poolmark::cli {

class LogJoin {
 public:
  using Name = std::pair<std::string, std::string>;  // machine, process
  // `lost` bytes before `data` were rotated away. `anew`: it is the beginning of another log of this name.
  using Tell = std::function<void(const Name& name, uint64_t lost, std::string_view data, bool anew)>;

  LogJoin(const Clock* clock, Tell tell) : clock_(clock), tell_(std::move(tell)) {}
  void Add(const Name& name, uint64_t offset, uint64_t lost, std::string_view data);
  // The stream is opened again.
  void Again();
  // Nothing comes any more: what is held is told.
  void End();

 private:
  struct Log {
    uint64_t begin = 0, next = 0;  // what was told, by its place in the log
    uint64_t hash = 0;             // of it
    bool known = false;            // something was told
    bool again = false;            // the stream was opened again and has not come as far as `next`
    std::string held;              // of it meanwhile, from `held_from`
    uint64_t held_from = 0;
    Nanoseconds heard{0};
  };
  void Take(const Name& name, Log* log, uint64_t offset, uint64_t lost, std::string_view data);
  void TakeHeldAsAnother(const Name& name, Log* log);

  const Clock* clock_;
  const Tell tell_;
  std::map<Name, Log> logs_;
};

}  // namespace poolmark::cli
