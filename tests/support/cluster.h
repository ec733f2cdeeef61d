// A certificate authority and identities in a temporary directory, for tests that link poolmark_ca.
// Failures end the test.
#pragma once
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/rpc/tls.h"
#include "controller/ca/ca.h"
#include "tests/support/temp_dir.h"

namespace poolmark::test {

class Cluster {
 public:
  explicit Cluster(const std::string& name = "lab") {
    auto made = controller::Authority::Create(dir_ / "ca", name, RealClock());
    INFO(made.status());
    REQUIRE(made.ok());
    ca_ = std::move(*made);
  }

  controller::Authority& ca() { return *ca_; }
  // The identity directory of a party; made at the first call.
  std::string Identity(rpc::Role role, const std::string& name) {
    std::string path = dir_ / (rpc::RoleName(role) + "-" + name);
    if (rpc::LoadIdentity(path, RealClock()).ok()) return path;
    auto text = ca_->Issue(role, name, std::chrono::hours(1));
    INFO(text.status());
    REQUIRE(text.ok());
    Status installed = rpc::InstallIdentity(path, *text, RealClock());
    INFO(installed);
    REQUIRE(installed.ok());
    return path;
  }
  std::string Controller() { return Identity(rpc::Role::kController, "controller"); }
  const TempDir& dir() const { return dir_; }

 private:
  TempDir dir_;
  std::unique_ptr<controller::Authority> ca_;
};

}  // namespace poolmark::test
