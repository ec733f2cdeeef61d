// A server in a process with 64 file descriptors under floods of connections (CVE-2023-4785: gRPC 1.51 alone
// goes deaf for good). The server is this test binary again, started with a hidden test case.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <iostream>
#include <thread>

#include "common/base/files.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "poolmark/v1/controller.grpc.pb.h"
#include "tests/support/cluster.h"
#include "tests/support/waiting.h"

extern char** environ;  // NOLINT

namespace poolmark::rpc {
namespace {

using namespace std::chrono_literals;

class Service final : public v1::ControllerService::Service {
 public:
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    response->set_version("1");
    return grpc::Status::OK;
  }
};

class Child {
 public:
  explicit Child(const std::string& identity) {
    setenv("POOLMARK_FLOOD_IDENTITY", identity.c_str(), 1);
    int out[2];
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    REQUIRE(pipe2(in_, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in_[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    char path[] = "/proc/self/exe";
    char name[] = "flooded server";
    char* argv[] = {path, name, nullptr};
    REQUIRE(posix_spawn(&pid_, path, &actions, nullptr, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(in_[0]);
    std::string text;
    char c = 0;
    // Catch2 prints a line of its own before.
    while (read(out[0], &c, 1) == 1 && !(c == '\n' && text.rfind("serves ", 0) == 0)) {
      text += c;
      if (c == '\n') text.clear();
    }
    close(out[0]);
    if (text.rfind("serves ", 0) == 0) address = text.substr(7);
  }
  ~Child() {
    close(in_[1]);
    waitpid(pid_, &status, 0);
  }
  size_t Descriptors() const { return ListDir("/proc/" + std::to_string(pid_) + "/fd")->size(); }

  std::string address;
  int status = -1;

 private:
  pid_t pid_ = -1;
  int in_[2];
};

// Connections that say nothing, from one loopback address.
class Flood {
 public:
  Flood(const std::string& source, const std::string& target, int count) {
    auto parsed = ParseHostPort(target);
    REQUIRE(parsed.ok());
    for (int i = 0; i < count; ++i) {
      int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      if (fd < 0) break;
      sockaddr_in from{}, to{};
      from.sin_family = to.sin_family = AF_INET;
      inet_pton(AF_INET, source.c_str(), &from.sin_addr);
      inet_pton(AF_INET, parsed->host.c_str(), &to.sin_addr);
      to.sin_port = htons(static_cast<uint16_t>(parsed->port));
      bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from);
      connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to);
      fds_.push_back(fd);
    }
  }
  ~Flood() {
    for (int fd : fds_) close(fd);
  }

 private:
  std::vector<int> fds_;
};

Status Ask(const std::string& address, const std::string& identity, std::chrono::seconds within = 5s) {
  auto channel = MakeChannel({address, "controller.poolmark", identity});
  if (!channel.ok()) return channel.status();
  auto stub = v1::ControllerService::NewStub(*channel);
  return Call(*stub, &v1::ControllerService::Stub::GetVersion, v1::GetVersionRequest(), within).status();
}

}  // namespace

TEST_CASE("flooded server", "[.]") {
  const char* identity = std::getenv("POOLMARK_FLOOD_IDENTITY");
  REQUIRE(identity != nullptr);
  rlimit limit{64, 64};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  Service service;
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.identity_dir = identity;
  auto server = Server::Start(options, {&service});
  REQUIRE(server.ok());
  std::cout << "serves " << (*server)->address() << std::endl;
  char c = 0;
  while (read(0, &c, 1) == 1) {
  }
}

TEST_CASE("a flood past the descriptor limit keeps nobody out, during and after", "[live]") {
  test::Cluster cluster;
  std::string me = cluster.Identity(Role::kViewer, "vera");
  Child child(cluster.Controller());
  REQUIRE_FALSE(child.address.empty());
  REQUIRE(Ask(child.address, me).ok());
  size_t base = child.Descriptors();
  for (int round = 0; round < 5; ++round) {
    {
      Flood flood("127.0.0.2", child.address, 400);
      Status during = Ask(child.address, me);
      INFO("during round " << round << ": " << during);
      CHECK(during.ok());
    }
    Status after = Ask(child.address, me);
    INFO("after round " << round << ": " << after);
    CHECK(after.ok());
  }
  CHECK(test::WaitFor([&] { return child.Descriptors() <= base + 3; }));
}

TEST_CASE("a flood from many sources makes room for a caller with a certificate", "[live]") {
  test::Cluster cluster;
  std::string me = cluster.Identity(Role::kViewer, "vera");
  Child child(cluster.Controller());
  std::vector<std::unique_ptr<Flood>> floods;
  for (int i = 2; i < 12; ++i)
    floods.push_back(std::make_unique<Flood>("127.0.0." + std::to_string(i), child.address, 40));
  CHECK(Ask(child.address, me).ok());
  floods.clear();
  CHECK(Ask(child.address, me).ok());
}

TEST_CASE("connections that never make a call are closed") {
  test::Cluster cluster;
  Service service;
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.identity_dir = cluster.Controller();
  options.handshake_timeout = 300ms;
  auto server = Server::Start(options, {&service});
  REQUIRE(server.ok());
  {
    Flood silent("127.0.0.1", (*server)->address(), 20);
    CHECK(test::WaitFor([&] { return (*server)->counts().accepted == 20; }));
    CHECK(test::WaitFor([&] { return (*server)->counts().live == 0; }));
  }
  // The pending cap: the oldest goes, the newest stays.
  (*server)->Shutdown(100ms);
  options.max_pending = 5;
  options.handshake_timeout = 60s;
  server = Server::Start(options, {&service});
  REQUIRE(server.ok());
  Flood silent("127.0.0.3", (*server)->address(), 50);
  CHECK(test::WaitFor([&] { return (*server)->counts().accepted == 50; }));
  CHECK((*server)->counts().evicted_pending == 45);
  CHECK(test::WaitFor([&] { return (*server)->counts().live <= 5; }));
  CHECK(Ask((*server)->address(), cluster.Identity(Role::kViewer, "vera")).ok());
}

}  // namespace poolmark::rpc
