#include <catch2/catch.hpp>
#include <numeric>

#include "common/model/block_hash.h"
#include "common/model/router_policy.h"
#include "common/model/tiers.h"

using namespace poolmark;
using namespace poolmark::model;

namespace {

std::vector<Token> Tokens(size_t count, Token first = 0) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<BlockHash> Ids(std::initializer_list<BlockHash> ids) {
  return ids;
}

}  // namespace

TEST_CASE("block hashes are chained: equal prefixes share, one other token parts for good") {
  std::vector<Token> a = Tokens(64);
  std::vector<Token> b = a;
  b[20] = 999;
  auto x = HashBlocks(a, 16, 0);
  auto y = HashBlocks(b, 16, 0);
  REQUIRE(x.size() == 4);
  CHECK(x[0] == y[0]);
  for (size_t i = 1; i < 4; ++i) CHECK(x[i] != y[i]);
  CHECK(HashBlocks(std::span(a).first(47), 16, 0).size() == 2);
  CHECK(HashBlocks(a, 16, 1)[0] != x[0]);
  CHECK(HashBlocks(a, 0, 0).empty());
  // The values are part of what engines share: they may not change between builds.
  CHECK(x[3] == 0x8bbb4835c1ef83e7ull);
}

TEST_CASE("the least recently used block goes first, one in use never") {
  LruBlocks lru(3);
  std::vector<BlockHash> gone;
  for (BlockHash h : {1, 2, 3}) REQUIRE(lru.Insert(h, &gone));
  REQUIRE(lru.Pin(1));
  CHECK(lru.Touch(2));
  CHECK(lru.Insert(4, &gone));
  CHECK(gone == Ids({3}));
  CHECK(lru.Reserve(2, &gone));
  CHECK(gone == Ids({3, 2, 4}));
  CHECK(lru.available() == 0);
  CHECK_FALSE(lru.Insert(5, &gone));
  CHECK_FALSE(lru.Reserve(1, &gone));
  lru.Release(2);
  lru.Unpin(1);
  CHECK(lru.available() == 3);
  CHECK(lru.Clear() == 1);
  CHECK(lru.size() == 0);
}

TEST_CASE("blocks are written through to the host, from there to disk, from there away") {
  Tiers tiers({2, 2, 2});
  std::vector<Move> moves;
  for (BlockHash h : {1, 2, 3, 4, 5, 6}) REQUIRE(tiers.Place(h, &moves));
  CHECK(tiers.Locate(6) == Tier::kGpu);
  CHECK(tiers.Locate(5) == Tier::kGpu);
  CHECK(tiers.Locate(4) == Tier::kDisk);
  CHECK(tiers.Locate(3) == Tier::kDisk);
  CHECK(tiers.Locate(2) == Tier::kNone);
  CHECK(tiers.InHost(6));
  int to_disk = 0, dropped = 0, written = 0;
  for (const Move& move : moves) {
    to_disk += move.kind == Move::Kind::kHostToDisk;
    dropped += move.kind == Move::Kind::kDropDisk;
    written += move.kind == Move::Kind::kWriteHost;
  }
  CHECK(written == 6);
  CHECK(to_disk == 4);
  CHECK(dropped == 2);
  moves.clear();
  tiers.Clear(false, &moves);
  CHECK(moves.empty());
  CHECK(tiers.Locate(6) == Tier::kHost);
  tiers.Clear(true, &moves);
  CHECK(moves.size() == 4);
  CHECK(tiers.Locate(6) == Tier::kNone);
}

TEST_CASE("a replay finds prefixes only, and never the last block of a whole hit") {
  LruBlocks remote(LruBlocks::kUnbounded);
  Replay one({4, 0, 0}, &remote);
  Replay two({4, 0, 0}, &remote);
  auto prompt = Ids({1, 2, 3});
  CHECK(one.Request(prompt, 3).found() == 0);
  CHECK(one.Request(prompt, UsableBlocks(48, 16)).blocks[0] == 2);
  CHECK(one.Request(Ids({9, 2, 3}), 3).found() == 0);
  CHECK(two.Request(prompt, 3).blocks[static_cast<size_t>(Tier::kRemote)] == 3);
  CHECK(two.Request(prompt, 3).blocks[0] == 3);
}

TEST_CASE("router policies: turns, load, stickiness, prefixes, and nobody when all are down") {
  std::vector<WorkerState> workers(3);
  auto round = *MakeRouterPolicy("round_robin");
  std::vector<size_t> picks;
  for (int i = 0; i < 4; ++i) picks.push_back(round->Choose({}, workers));
  CHECK(picks == std::vector<size_t>{0, 1, 2, 0});
  workers[1].healthy = false;
  CHECK(round->Choose({}, workers) == 2);

  auto least = *MakeRouterPolicy("least_loaded");
  workers[0].active_requests = 5;
  CHECK(least->Choose({}, workers) == 2);

  workers[1].healthy = true;
  auto sticky = *MakeRouterPolicy("sticky");
  int moved = 0;
  for (int i = 0; i < 50; ++i) {
    std::string session = "session-" + std::to_string(i);
    RouteRequest request{{}, session};
    size_t before = sticky->Choose(request, workers);
    CHECK(sticky->Choose(request, workers) == before);
    workers[1].healthy = false;
    size_t after = sticky->Choose(request, workers);
    if (before != 1) CHECK(after == before);
    moved += before == 1;
    workers[1].healthy = true;
  }
  CHECK(moved > 5);

  auto aware = *MakeRouterPolicy("cache_aware");
  std::vector<WorkerState> idle(3);
  auto long_prompt = Ids({1, 2, 3, 4});
  size_t home = aware->Choose({long_prompt, ""}, idle);
  for (int i = 0; i < 5; ++i) CHECK(aware->Choose({long_prompt, ""}, idle) == home);
  idle[home].active_requests = 100;
  CHECK(aware->Choose({long_prompt, ""}, idle) != home);

  for (WorkerState& worker : idle) worker.healthy = false;
  for (const char* name : {"round_robin", "least_loaded", "sticky", "cache_aware"}) {
    CHECK((*MakeRouterPolicy(name))->Choose({long_prompt, "s"}, idle) == RouterPolicy::kNobody);
    CHECK((*MakeRouterPolicy(name))->Choose({long_prompt, "s"}, {}) == RouterPolicy::kNobody);
  }
  CHECK_FALSE(MakeRouterPolicy("magic").ok());
}
