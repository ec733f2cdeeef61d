// Checks on a network of its own: two network namespaces joined by a cable, in a child process with private
// mounts. Nothing of the machine's own network changes. Skipped where that is not permitted.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <iostream>

#include "agent/checks/checks.h"

using namespace poolmark;
using namespace poolmark::agent;

namespace {

constexpr int kNotPermitted = 77;

// Runs `body` in a child with namespaces of its own; what it returns is said when it is not empty.
std::optional<std::string> Isolated(const std::function<std::string(Spawner&)>& body) {
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) return "no pipe";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(pipe_fds[0]);
    if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) ::_exit(kNotPermitted);
    const bool mounted = ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0 &&
                         ::mount("tmpfs", "/run", "tmpfs", 0, nullptr) == 0;
    if (!mounted) ::_exit(kNotPermitted);
    const auto spawner = MakeSpawner();
    const std::string said = body(*spawner);
    const ssize_t written = ::write(pipe_fds[1], said.data(), said.size());
    ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(pipe_fds[1]);
  std::string said;
  char buffer[4096];
  ssize_t got;
  while ((got = ::read(pipe_fds[0], buffer, sizeof buffer)) > 0)
    said.append(buffer, static_cast<size_t>(got));
  ::close(pipe_fds[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted) return std::nullopt;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "the child failed: " + said;
  return said;
}

// Lines of `ip`; the first failure's words, else empty.
std::string Ip(Spawner& spawner, const std::vector<std::vector<std::string>>& lines) {
  for (std::vector<std::string> argv : lines) {
    argv.insert(argv.begin(), "ip");
    const Command command{argv, {}};
    const auto output = RunCommand(spawner, command, std::chrono::seconds(10));
    if (!output.ok() || !output->ok())
      return output.ok() ? Describe(command, *output) : std::string(output.status().message());
  }
  return "";
}

std::string Cable(Spawner& spawner, const std::string& near_address) {
  return Ip(spawner, {{"link", "set", "lo", "up"},
                      {"netns", "add", "far"},
                      {"link", "add", "near0", "mtu", "9000", "type", "veth", "peer", "name", "far0", "mtu",
                       "9000", "netns", "far"},
                      {"addr", "add", near_address, "dev", "near0"},
                      {"link", "set", "near0", "up"},
                      {"netns", "exec", "far", "ip", "addr", "add", "10.99.0.2/24", "dev", "far0"},
                      {"netns", "exec", "far", "ip", "link", "set", "far0", "up"}});
}

v1::CheckResult RunIn(const std::string& id, const v1::CheckPlan& plan, Spawner& spawner) {
  CheckContext context;
  context.facts.spawner = &spawner;
  context.job_pids = [] { return std::set<int>{::getpid()}; };
  v1::CheckResult out;
  RunChecks(plan, {id}, context, [&](v1::CheckResult result) { out = std::move(result); });
  return out;
}

std::string Expect(const v1::CheckResult& result, v1::Outcome outcome, const std::string& words) {
  if (result.outcome() == outcome && result.observed().find(words) != std::string::npos) return "";
  return "expected " + v1::Outcome_Name(outcome) + " '" + words + "', got " + result.ShortDebugString() +
         "\n";
}

bool Possible() {
  if (FindExecutable("ip") && FindExecutable("ping")) return true;
  std::cout << "skipped: no ip or ping\n";
  return false;
}
void Judge(const std::optional<std::string>& said) {
  if (!said) {
    std::cout << "skipped: namespaces are not permitted\n";
    return;
  }
  INFO(*said);
  CHECK(said->empty());
}

// A plan whose KV leaves by `address` for one peer.
v1::CheckPlan NetPlan(const char* address, const char* peer) {
  v1::CheckPlan plan;
  plan.add_net_addresses(address);
  plan.add_peers(peer);
  return plan;
}

}  // namespace

TEST_CASE("a far end with a smaller MTU is found by packets that must not be fragmented", "[C9][live]") {
  if (!Possible()) return;
  Judge(Isolated([](Spawner& spawner) {
    std::string problems = Cable(spawner, "10.99.0.1/24");
    v1::CheckPlan plan = NetPlan("10.99.0.1", "10.99.0.2");
    plan.set_mtu(9000);
    problems += Expect(RunIn("mtu", plan, spawner), v1::OUTCOME_PASS, "near0 9000; carried to 1 peer");
    problems += Ip(spawner, {{"netns", "exec", "far", "ip", "link", "set", "far0", "mtu", "1500"}});
    problems += Expect(RunIn("mtu", plan, spawner), v1::OUTCOME_FAIL, "do not reach 10.99.0.2");
    problems += Ip(spawner, {{"netns", "exec", "far", "ip", "link", "set", "far0", "down"}});
    problems +=
        Expect(RunIn("mtu", plan, spawner), v1::OUTCOME_NOT_MEASURED, "no answer to any ping from 10.99.0.2");
    plan.set_mtu(1500);
    problems += Expect(RunIn("mtu", plan, spawner), v1::OUTCOME_FAIL, "near0 9000");
    return problems;
  }));
}

TEST_CASE("each network has an MTU of its own, and a card's pings leave by its own address", "[C9][live]") {
  if (!Possible()) return;
  Judge(Isolated([](Spawner& spawner) {
    std::string problems = Cable(spawner, "10.99.0.1/24");
    problems += Ip(spawner, {{"link", "add", "card0", "mtu", "1500", "type", "veth", "peer", "name", "card1",
                              "mtu", "1500", "netns", "far"},
                             {"addr", "add", "10.98.0.1/24", "dev", "card0"},
                             {"link", "set", "card0", "up"},
                             {"netns", "exec", "far", "ip", "addr", "add", "10.98.0.2/24", "dev", "card1"},
                             {"netns", "exec", "far", "ip", "link", "set", "card1", "up"}});
    v1::CheckPlan tcp = NetPlan("10.99.0.1", "10.99.0.2");
    problems += Expect(RunIn("mtu", tcp, spawner), v1::OUTCOME_PASS, "near0 9000; carried to 1 peer");
    v1::CheckPlan card = NetPlan("10.98.0.1", "10.98.0.2");
    problems += Expect(RunIn("mtu", card, spawner), v1::OUTCOME_PASS, "card0 1500; carried to 1 peer");
    problems += Ip(spawner, {{"netns", "exec", "far", "ip", "link", "set", "card1", "mtu", "1400"}});
    problems += Expect(RunIn("mtu", card, spawner), v1::OUTCOME_FAIL, "do not reach 10.98.0.2");
    problems += Expect(RunIn("mtu", tcp, spawner), v1::OUTCOME_PASS, "near0 9000; carried to 1 peer");
    return problems;
  }));
}

TEST_CASE("a pool whose machines answer no ping: all are tried side by side and named", "[C9][live]") {
  if (!Possible()) return;
  Judge(Isolated([](Spawner& spawner) {
    std::string problems = Cable(spawner, "10.99.0.1/24");
    v1::CheckPlan plan = NetPlan("10.99.0.1", "10.99.0.2");
    for (int i = 10; i < 60; ++i) plan.add_peers("10.99.0." + std::to_string(i));  // nobody has these
    const auto result = RunIn("mtu", plan, spawner);
    problems += Expect(result, v1::OUTCOME_NOT_MEASURED, "no answer to any ping from 10.99.0.10, ");
    problems += Expect(result, v1::OUTCOME_NOT_MEASURED, " and 45 more");
    if (result.evidence().find("10.99.0.2: 9000 bytes, not fragmented: answered") == std::string::npos)
      problems += "the one that answers is not in the evidence\n";
    return problems;
  }));
}

TEST_CASE("a wildcard bind on a machine with a public address is found, over IPv4 and IPv6", "[C11][live]") {
  if (!Possible()) return;
  Judge(Isolated([](Spawner& spawner) {
    // addresses of a network that nobody outside these namespaces can see
    std::string problems = Cable(spawner, "8.8.4.4/24");
    const auto listen = [&](int family, const char* address) {
      const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in6 six{};
      six.sin6_family = AF_INET6;
      ::inet_pton(AF_INET6, address, &six.sin6_addr);
      sockaddr_in four{};
      four.sin_family = AF_INET;
      ::inet_pton(AF_INET, address, &four.sin_addr);
      const bool good = family == AF_INET6 ? ::bind(fd, reinterpret_cast<sockaddr*>(&six), sizeof six) == 0
                                           : ::bind(fd, reinterpret_cast<sockaddr*>(&four), sizeof four) == 0;
      if (!good || ::listen(fd, 1) != 0) problems += std::string("cannot listen on ") + address + "\n";
      return fd;
    };
    v1::CheckPlan plan;
    int fd = listen(AF_INET, "127.0.0.1");
    problems += Expect(RunIn("public_ports", plan, spawner), v1::OUTCOME_PASS, "none reachable");
    ::close(fd);
    fd = listen(AF_INET, "0.0.0.0");
    problems += Expect(RunIn("public_ports", plan, spawner), v1::OUTCOME_FAIL,
                       "bound to every address, among them the public 8.8.4.4");
    ::close(fd);
    fd = listen(AF_INET6, "::");  // takes IPv4 too
    problems += Expect(RunIn("public_ports", plan, spawner), v1::OUTCOME_FAIL, "tcp [::]:");
    ::close(fd);
    fd = listen(AF_INET, "8.8.4.4");
    problems += Expect(RunIn("public_ports", plan, spawner), v1::OUTCOME_FAIL, "bound to a public address");
    ::close(fd);
    problems +=
        Expect(RunIn("public_ports", plan, spawner), v1::OUTCOME_PASS, "no port of the pool is bound yet");
    return problems;
  }));
}
