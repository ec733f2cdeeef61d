// How often one caller may call: a bucket of tokens for each name, refilled at a steady rate. Bounded: full
// buckets are forgotten. Thread-safe.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "common/base/clock.h"

namespace poolmark::rpc {

struct Rate {
  double per_second = 50;
  double burst = 500;
};

class RateLimiter {
 public:
  explicit RateLimiter(Rate rate) : rate_(rate) {}
  // False: too many within a short time. `now` is steady time.
  bool Take(const std::string& who, Nanoseconds now);
  size_t size() const;

 private:
  struct Bucket {
    double tokens = 0;
    Nanoseconds at{0};
  };
  double Refilled(const Bucket& bucket, Nanoseconds now) const;

  const Rate rate_;
  mutable std::mutex mutex_;  // buckets_
  std::map<std::string, Bucket> buckets_;
};

}  // namespace poolmark::rpc
