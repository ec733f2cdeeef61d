// Faults on request: what a real engine does wrong, done on purpose. A fault is written as
// "kind[:key=value,...]", given with --fault or posted to /sim/fault while the engine runs.
//
// Of single requests (rate=0..1, count=N, after_requests=N choose which; only=store means those with
// max_tokens 1, only=measured the others):
//   error-before   status=500            an HTTP error instead of an answer
//   error-inside   after_tokens=3,event=0|1   HTTP 200, then an error object in the stream
//   truncate       after_tokens=3        the stream ends without finish_reason and [DONE]
//   reset          after_tokens=3        the connection is reset
//   stall          after_tokens=3,for=D  nothing more is sent for that long (default: for ever)
//   drip           bytes=1,interval=20ms the stream comes in small pieces
//   early-role                           the role event is sent before any token exists
//   no-usage                             no usage in any reply
//   no-done                              [DONE] is missing
//   no-output                            ends well without any output
//   garbage        what=text|html|json|endless-line|bomb   a 200 whose body is no stream
// Of the engine (key after=D: that long after it was asked for):
//   crash          exit=1 | signal=9     dies at once
//   hang           health=ok|dead        no token any more; with dead no HTTP answer either
//   ignore-sigterm                       SIGTERM does nothing
//   detach         count=1,ignore_sigterm=0,listen=0   children in sessions of their own that outlive it
//   counter-reset                        all counters start again at zero
//   kv-format      model=|dtype=|kv_dtype=|seed=|layers=   writes and expects another KV format
//   store-error    rate=1                calls of the shared store fail
//   corrupt-kv     rate=1                blocks are written damaged
//   slow           factor=3              simulated GPU time is multiplied
//   log-flood      lines=100000          that many lines on stderr
//   metrics        what=error|empty|html|slow   /metrics does not answer as it should
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/result.h"

namespace poolmark::sim {

struct Fault {
  std::string kind;
  std::map<std::string, std::string> values;
  double Number(const std::string& key, double otherwise) const;
  std::string Text(const std::string& key, std::string_view otherwise) const;
  std::optional<Nanoseconds> Duration(const std::string& key) const;
  std::string ToString() const;
  bool IsOfRequest() const;
};

// Errors name the fault, the key and what is allowed.
Result<Fault> ParseFault(std::string_view text);
// The names of all faults.
std::vector<std::string> FaultKinds();

// The faults that are on. Thread-safe.
class FaultBox {
 public:
  explicit FaultBox(uint64_t seed) : random_(seed) {}
  void Add(Fault fault);
  void Clear();
  std::vector<std::string> List() const;

  // For one new request, with max_tokens 1 or not: the faults that hit it.
  std::vector<Fault> ForRequest(bool one_token);
  // The first fault of that kind, or nothing.
  std::optional<Fault> Find(std::string_view kind) const;
  // True with the chance `rate` of a fault of that kind.
  bool Hits(std::string_view kind);

 private:
  struct Entry {
    Fault fault;
    uint64_t seen = 0;  // requests
    uint64_t hit = 0;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  SplitMix64 random_;
};

}  // namespace poolmark::sim
