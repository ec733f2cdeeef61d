// Counters that see RDMA, TCP or both, as drivers differ.
#include "common/results/path_calibration.h"

#include <catch2/catch.hpp>

using namespace poolmark;
using namespace poolmark::results;

TEST_CASE("an interface that leaves RDMA out, as mlx5's does", "[J1]") {
  const PathCalibration card{{{"net:eth0", 1.0044}, {"net:lo", 0.0}, {"rdma:mlx5_0", 0.0}},
                             {{"net:eth0", 0.0001}, {"rdma:mlx5_0", 1.02}}};
  const PathBytes bytes =
      ReadThrough(card, {{"net:eth0", 1.0044e9}, {"net:lo", 5e9}, {"rdma:mlx5_0", 2.04e9}});
  CHECK(*bytes.rdma == Approx(2e9));
  CHECK(*bytes.tcp == Approx(1e9));
}

TEST_CASE("an interface that counts both, as bnxt's may", "[J1]") {
  const PathCalibration card{{{"net:ens3", 1.0}}, {{"net:ens3", 1.05}, {"rdma:bnxt_re0", 1.0}}};
  const PathBytes bytes = ReadThrough(card, {{"net:ens3", 3.1e9}, {"rdma:bnxt_re0", 2e9}});
  CHECK(*bytes.rdma == Approx(2e9));
  CHECK(*bytes.tcp == Approx(1e9));
  // Rounding never makes less than nothing.
  CHECK(*ReadThrough(card, {{"net:ens3", 2e9}, {"rdma:bnxt_re0", 2e9}}).tcp == 0);
}

TEST_CASE("software RoCE has no byte counter of its own: neither path is known", "[J1]") {
  const PathCalibration card{{{"net:eth0", 1.0}}, {{"net:eth0", 1.06}}};
  const PathBytes bytes = ReadThrough(card, {{"net:eth0", 3e9}});
  CHECK_FALSE(bytes.rdma.has_value());
  CHECK_FALSE(bytes.tcp.has_value());
  CHECK(bytes.tcp.reason().find("together") != std::string::npos);
}

TEST_CASE("a bond and its members count the same bytes once", "[J1]") {
  const PathCalibration card{{{"net:bond0", 1.01}, {"net:eth0", 0.6}, {"net:eth1", 0.41}}, {}};
  const PathBytes bytes =
      ReadThrough(card, {{"net:bond0", 1.01e9}, {"net:eth0", 0.9e9}, {"net:eth1", 0.11e9}});
  CHECK(*bytes.tcp == Approx(1e9));
  CHECK_FALSE(bytes.rdma.has_value());
}

TEST_CASE("what preflight could not calibrate is not measured", "[J1]") {
  CHECK(Ratios({{"net:eth0", 10}}, 0).empty());
  CHECK(Ratios({{"net:eth0", 10}}, 5).at("net:eth0") == 2);
  const PathCalibration quiet{{{"net:eth0", 0.01}}, {}};
  CHECK_FALSE(ReadThrough(quiet, {{"net:eth0", 1e9}}).tcp.has_value());
  CHECK_FALSE(ReadThrough({}, {}).rdma.has_value());
}
