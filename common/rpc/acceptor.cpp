#include "common/rpc/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/log.h"
#include "common/rpc/address.h"

namespace poolmark::rpc {
namespace {

constexpr int kSweepMilliseconds = 250;
constexpr int kBacklog = 1024;
constexpr std::chrono::seconds kClosingAtMost{1};

struct Connection {
  int fd;
  ino_t inode;         // of the socket: a number that is reused by another socket has another one
  std::string source;  // address without port, v4-mapped addresses as v4
  std::string peer;    // source and port, for Seen
  bool pending = true;
};

std::string SourceOf(const sockaddr_storage& address, int* port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    *port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
    } else {
      inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    }
    *port = ntohs(v6.sin6_port);
  }
  return text;
}

// Ends a connection with a reset, which leaves nothing behind on our side.
void Reset(int fd) {
  linger hard{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close(fd);
}

bool SameSocket(const Connection& connection) {
  struct stat status {};
  return fstat(connection.fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == connection.inode;
}

int OpenReserve() {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

}  // namespace

struct Acceptor::State {
  Limits limits;
  int listener = -1;
  int wake = -1;
  int reserve = -1;
  int port = 0;
  std::function<void(int)> hand_over;
  std::thread thread;
  std::atomic<bool> stop{false};

  mutable std::mutex mutex;           // guards what follows
  std::list<Connection> connections;  // oldest first
  std::unordered_map<std::string, std::list<Connection>::iterator> by_peer;
  std::unordered_map<std::string, size_t> per_source;
  size_t pending = 0;
  Counts counts;
  struct Closing {
    int fd;
    ino_t inode;
    std::chrono::steady_clock::time_point since;
  };
  std::vector<Closing> closing;

  void Forget(std::list<Connection>::iterator at) {
    auto source = per_source.find(at->source);
    if (source != per_source.end() && --source->second == 0) per_source.erase(source);
    auto peer = by_peer.find(at->peer);
    if (peer != by_peer.end() && peer->second == at) by_peer.erase(peer);
    if (at->pending) --pending;
    connections.erase(at);
  }

  // gRPC tells nobody when it closes a socket: look.
  void Sweep() {
    std::lock_guard lock(mutex);
    for (auto at = connections.begin(); at != connections.end();) {
      auto next = std::next(at);
      if (!SameSocket(*at)) Forget(at);
      at = next;
    }
  }

  // Ends the oldest pending connection of the source that has most of them. The mutex is held.
  bool EvictPending() {
    std::unordered_map<std::string_view, size_t> waiting;
    std::string_view busiest;
    for (const Connection& connection : connections) {
      if (connection.pending && ++waiting[connection.source] > (busiest.empty() ? 0 : waiting[busiest]))
        busiest = connection.source;
    }
    for (auto at = connections.begin(); at != connections.end(); ++at) {
      if (!at->pending || at->source != busiest) continue;
      if (SameSocket(*at)) {
        shutdown(at->fd, SHUT_RDWR);  // gRPC sees the end and closes it
        closing.push_back({at->fd, at->inode, std::chrono::steady_clock::now()});
      }
      ++counts.evicted_pending;
      Forget(at);
      return true;
    }
    return false;
  }

  // Takes the socket in, or refuses it.
  void Take(int fd, const sockaddr_storage& address) {
    Connection connection{fd, 0, "", "", true};
    int peer_port = 0;
    connection.source = SourceOf(address, &peer_port);
    connection.peer = FormatHostPort(connection.source, peer_port);
    struct stat status {};
    bool known = fstat(fd, &status) == 0;
    connection.inode = status.st_ino;
    {
      std::lock_guard lock(mutex);
      bool capped = limits.cap_loopback || !IsLoopbackAddress(connection.source);
      auto source = per_source.find(connection.source);
      size_t of_source = source == per_source.end() ? 0 : source->second;
      bool full = !known || (capped && of_source >= limits.per_source);
      if (!full && connections.size() >= limits.total) full = !EvictPending();
      if (!full && pending >= limits.pending) full = !EvictPending();
      if (full) {
        ++counts.refused_full;
        Reset(fd);
        return;
      }
      ++counts.accepted;
      ++pending;
      ++per_source[connection.source];
      std::string peer = connection.peer;
      connections.push_back(std::move(connection));
      by_peer[peer] = std::prev(connections.end());
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    hand_over(fd);
  }

  // No descriptor is left: give up the reserve for a moment, take a waiting connection and reset it, so that
  // the backlog empties and clients learn at once.
  bool DrainOne() {
    close(reserve);
    int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) Reset(fd);
    reserve = OpenReserve();
    std::lock_guard lock(mutex);
    if (++counts.out_of_descriptors == 1) {
      Log(LogLevel::kError, "rpc.out_of_descriptors",
          {{"port", port}, {"hint", "raise LimitNOFILE or lower the connection caps"}});
    }
    return fd >= 0;
  }

  // Evicted sockets hold their descriptors until gRPC has closed them, some milliseconds later. While there
  // are many, newcomers wait in the backlog: an eviction for each of them would use up the descriptors.
  bool ManyClosing() {
    const auto now = std::chrono::steady_clock::now();
    std::lock_guard lock(mutex);
    std::erase_if(closing, [&](const Closing& one) {
      return now - one.since > kClosingAtMost || !SameSocket({one.fd, one.inode, "", "", false});
    });
    return closing.size() >= std::clamp<size_t>(limits.total / 4, 2, 64);
  }

  void AcceptAll() {
    while (!stop) {
      if (ManyClosing()) {
        pollfd waiting{wake, POLLIN, 0};
        poll(&waiting, 1, 1);
        continue;
      }
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      int fd = accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        Take(fd, address);
      } else if (errno == EMFILE || errno == ENFILE) {
        if (!DrainOne()) return;
      } else if (errno != EINTR && errno != ECONNABORTED) {
        return;  // EAGAIN; anything else shows again at the next poll
      }
    }
  }

  void Run() {
    auto swept = std::chrono::steady_clock::now();
    while (!stop) {
      pollfd fds[] = {{listener, POLLIN, 0}, {wake, POLLIN, 0}};
      poll(fds, 2, kSweepMilliseconds);
      if (stop) return;
      auto now = std::chrono::steady_clock::now();
      if (now - swept >= std::chrono::milliseconds(kSweepMilliseconds)) {
        Sweep();
        swept = now;
      }
      if ((fds[0].revents & POLLIN) != 0) AcceptAll();
    }
  }
};

Acceptor::Acceptor() : state_(std::make_unique<State>()) {}

Acceptor::~Acceptor() {
  Stop();
  for (int fd : {state_->listener, state_->wake, state_->reserve}) {
    if (fd >= 0) close(fd);
  }
}

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& host, int port, Limits limits) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor());
  State& state = *acceptor->state_;
  state.limits = limits;
  const std::string where = FormatHostPort(host, port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (rc != 0)
    return InvalidInput(where, absl::StrCat("the host does not resolve: ", gai_strerror(rc)),
                        "give an address of this machine");
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  state.listener = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (state.listener < 0) return FromErrno(where, "making a socket", errno);
  int on = 1;
  setsockopt(state.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(state.listener, found->ai_addr, found->ai_addrlen) != 0)
    return FromErrno(where, "listening", errno);
  if (listen(state.listener, kBacklog) != 0) return FromErrno(where, "listening", errno);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(state.listener, reinterpret_cast<sockaddr*>(&bound), &size);
  SourceOf(bound, &state.port);
  state.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  state.reserve = OpenReserve();
  if (state.wake < 0 || state.reserve < 0) return FromErrno(where, "opening descriptors", errno);
  return acceptor;
}

int Acceptor::port() const {
  return state_->port;
}

void Acceptor::Start(std::function<void(int fd)> hand_over) {
  state_->hand_over = std::move(hand_over);
  state_->thread = std::thread([state = state_.get()] { state->Run(); });
}

void Acceptor::Seen(const std::string& peer) {
  size_t colon = peer.find(':');
  if (colon == std::string::npos) return;
  auto parsed = ParseHostPort(absl::StrReplaceAll(peer.substr(colon + 1), {{"%5B", "["}, {"%5D", "]"}}));
  if (!parsed.ok()) return;
  std::string host = parsed->host;
  if (host.rfind("::ffff:", 0) == 0) host = host.substr(7);
  std::lock_guard lock(state_->mutex);
  auto found = state_->by_peer.find(FormatHostPort(host, parsed->port));
  if (found == state_->by_peer.end() || !found->second->pending) return;
  found->second->pending = false;
  --state_->pending;
}

Acceptor::Counts Acceptor::counts() const {
  std::lock_guard lock(state_->mutex);
  Counts counts = state_->counts;
  counts.live = state_->connections.size();
  counts.pending = state_->pending;
  return counts;
}

void Acceptor::Stop() {
  if (!state_->thread.joinable()) return;
  state_->stop = true;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = write(state_->wake, &one, sizeof one);
  state_->thread.join();
  close(state_->listener);
  state_->listener = -1;
}

}  // namespace poolmark::rpc
