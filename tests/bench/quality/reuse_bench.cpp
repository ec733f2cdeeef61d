// Expected reuse (ReuseIndex) over N and over 4 N tokens: a line of each kind of text, "KIND CHUNK TOKENS
// SECONDS SECONDS_OF_4N RATIO", CPU time, the best of three. Linear in tokens means a ratio of about 4.
// tests/bench/quality/run builds and reads it.
//
//   bench_quality TOKENS CHUNK_SIZE
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/quality/reuse.h"

namespace poolmark::quality {
namespace {

using Tokens = std::vector<uint32_t>;

struct Work {
  std::vector<Tokens> stores;
  std::vector<Tokens> requests;
  int64_t covered = 0;  // what must be found
};

// Store requests of eight chunks, and as many tokens of requests: each holds four chunks of four store
// requests, where no chunk begins on the grid. Sixteen tokens a request are its own.
Work Passages(int64_t tokens, int64_t chunk) {
  SplitMix64 random(1);
  Work work;
  const auto length = static_cast<size_t>(8 * chunk);
  for (int64_t n = 0; n < tokens / 2; n += 8 * chunk) {
    Tokens& store = work.stores.emplace_back(length);
    for (uint32_t& token : store) token = static_cast<uint32_t>(random.Below(150'000));
  }
  for (int64_t n = 0; n < tokens / 2; n += 4 * chunk + 16) {
    Tokens& request = work.requests.emplace_back();
    for (int part = 0; part < 4; ++part) {
      for (int own = 0; own < 4; ++own)
        request.push_back(static_cast<uint32_t>(150'000 + random.Below(1000)));
      const Tokens& store = work.stores[random.Below(work.stores.size())];
      const auto from = static_cast<int64_t>(random.Below(8)) * chunk;
      request.insert(request.end(), store.begin() + from, store.begin() + from + chunk);
    }
    work.covered += 4 * chunk;
  }
  return work;
}

// One token over and over: every window of every request is a hit, and every hit is verified.
Work OneMark(int64_t tokens, int64_t chunk) {
  const auto length = static_cast<size_t>(8 * chunk);
  Work work;
  for (int64_t n = 0; n < tokens / 2; n += 8 * chunk) {
    work.stores.emplace_back(length, 13);
    work.requests.emplace_back(length, 13);
    work.covered += 8 * chunk;
  }
  return work;
}

double Seconds(const Work& work, int64_t chunk) {
  const std::clock_t start = std::clock();
  ReuseIndex index(chunk);
  for (const Tokens& store : work.stores) index.AddStore(store);
  int64_t covered = 0;
  for (const Tokens& request : work.requests) covered += index.Covered(request);
  const auto took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (covered != work.covered) {
    std::fprintf(stderr, "found %lld tokens, not %lld\n", static_cast<long long>(covered),
                 static_cast<long long>(work.covered));
    std::exit(1);
  }
  return took;
}

double Best(const Work& work, int64_t chunk) {
  double best = Seconds(work, chunk);
  for (int i = 0; i < 2; ++i) best = std::min(best, Seconds(work, chunk));
  return best;
}

}  // namespace
}  // namespace poolmark::quality

int main(int argc, char** argv) {
  using namespace poolmark::quality;
  const int64_t tokens = argc > 2 ? std::atoll(argv[1]) : 0;
  const int64_t chunk = argc > 2 ? std::atoll(argv[2]) : 0;
  if (chunk < 1 || tokens < 16 * chunk) {
    std::fprintf(stderr, "bench_quality TOKENS CHUNK_SIZE\n");
    return 2;
  }
  using Kind = std::pair<const char*, Work (*)(int64_t, int64_t)>;
  for (const auto& [kind, make] : {Kind{"passages", Passages}, Kind{"one-mark", OneMark}}) {
    const double once = Best(make(tokens, chunk), chunk);
    const double four_times = Best(make(4 * tokens, chunk), chunk);
    std::printf("%s %lld %lld %.6f %.6f %.3f\n", kind, static_cast<long long>(chunk),
                static_cast<long long>(tokens), once, four_times, four_times / once);
  }
  return 0;
}
