#include "common/rpc/rate_limit.h"

#include <algorithm>

namespace poolmark::rpc {
namespace {

constexpr size_t kMostBuckets = 8192;

}  // namespace

double RateLimiter::Refilled(const Bucket& bucket, Nanoseconds now) const {
  const double seconds = std::max(0.0, static_cast<double>((now - bucket.at).count()) / 1e9);
  return std::min(rate_.burst, bucket.tokens + seconds * rate_.per_second);
}

bool RateLimiter::Take(const std::string& who, Nanoseconds now) {
  std::lock_guard lock(mutex_);
  if (buckets_.size() >= kMostBuckets && !buckets_.contains(who)) {
    std::erase_if(buckets_, [&](const auto& entry) { return Refilled(entry.second, now) >= rate_.burst; });
    if (buckets_.size() >= kMostBuckets) return false;
  }
  auto [found, fresh] = buckets_.try_emplace(who, Bucket{rate_.burst, now});
  Bucket& bucket = found->second;
  bucket.tokens = Refilled(bucket, now);
  bucket.at = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

size_t RateLimiter::size() const {
  std::lock_guard lock(mutex_);
  return buckets_.size();
}

}  // namespace poolmark::rpc
