#include "agent/guard/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdio>

namespace poolmark::guard {
namespace {

constexpr size_t kMaxConnections = 64;
constexpr size_t kMaxOut = 256u << 10;
constexpr size_t kFillTo = 64u << 10;

}  // namespace

Server::Server(Poller* poller, EventLog* events, Dispatch dispatch)
    : poller_(poller), events_(events), dispatch_(std::move(dispatch)) {}

Server::~Server() {
  for (auto& [fd, connection] : connections_) poller_->Forget(fd);
  if (listener_) poller_->Forget(listener_.get());
}

Fault Server::Listen(const std::string& directory) {
  UniqueFd where(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!where) return Fault::Errno("open '" + directory + "'");
  unlinkat(where.get(), "guard.sock", 0);  // of a guard before us: its ledger lock is ours now
  listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A socket's path may have 107 characters only; this one is always short.
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/guard.sock", where.get());
  mode_t mask = umask(0177);
  bool bound = listener_ && bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  int error = errno;
  umask(mask);
  if (!bound) return Fault::Errno("bind '" + directory + "/guard.sock'", error);
  if (listen(listener_.get(), 32) != 0) return Fault::Errno("listen on '" + directory + "/guard.sock'");
  poller_->Watch(listener_.get(), POLLIN, [this](short) { Accept(); });
  return {};
}

void Server::Accept() {
  UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      (peer.uid != 0 && peer.uid != geteuid()) || connections_.size() >= kMaxConnections) {
    return;
  }
  int number = fd.get();
  connections_[number].fd = std::move(fd);
  poller_->Watch(number, POLLIN, [this, number](short revents) { Serve(number, revents); });
}

void Server::Serve(int fd, short revents) {
  auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  bool alive = true;
  if ((revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
    char buffer[16384];
    ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) alive = false;
    if (got > 0) connection.in.append(buffer, static_cast<size_t>(got));
    size_t end;
    while (alive && (end = connection.in.find('\n')) != std::string::npos) {
      std::string line = connection.in.substr(0, end);
      connection.in.erase(0, end + 1);
      HandleLine(&connection, line);
    }
    if (connection.in.size() > kMaxLine || connection.out.size() > kMaxLine) alive = false;
    if (connection.in.empty()) connection.in.shrink_to_fit();
  }
  if (alive) alive = Flush(&connection);
  if (!alive) {
    poller_->Forget(fd);
    connections_.erase(fd);
  }
}

void Server::HandleLine(Connection* connection, std::string_view line) {
  auto request = Decode(line);
  Record ok("ok");
  Fault fault;
  if (!request) {
    fault = Fault("bad_request", "the request is no record");
  } else if (connection->watching) {
    fault = Fault("bad_request", "this connection watches");
  } else if (request->name == "watch") {
    connection->watching = true;
    connection->next = request->Unsigned("after").value_or(0) + 1;
    // A number from a guard before this one means nothing here.
    if (connection->next > events_->last() + 1) connection->next = 1;
    ok.Add("last", events_->last());
  } else {
    std::vector<Record> data;
    fault = dispatch_(*request, &data, &ok);
    for (const Record& record : data) connection->out += Encode(record) + "\n";
  }
  if (!fault.ok()) {
    ok = Record("error").Add("code", fault.code()).Add("text", fault.text());
  }
  connection->out += Encode(ok) + "\n";
}

void Server::Fill(Connection* connection) {
  if (!connection->watching) return;
  if (connection->next < events_->first() && events_->last() != 0) {
    connection->out += Encode(Record("event")
                                  .Add("seq", events_->first() - 1)
                                  .Add("kind", "gap")
                                  .Add("from", connection->next)
                                  .Add("to", events_->first() - 1)) +
                       "\n";
    connection->next = events_->first();
  }
  while (connection->next <= events_->last() && connection->out.size() < kFillTo) {
    connection->out += Encode(events_->At(connection->next)) + "\n";
    ++connection->next;
  }
}

bool Server::Flush(Connection* connection) {
  while (!connection->out.empty()) {
    ssize_t sent = send(connection->fd.get(), connection->out.data(), connection->out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent <= 0) return false;
    connection->out.erase(0, static_cast<size_t>(sent));
  }
  poller_->ChangeEvents(connection->fd.get(),
                        static_cast<short>(POLLIN | (connection->out.empty() ? 0 : POLLOUT)));
  // A peer that asks and never reads is dropped.
  return connection->watching || connection->out.size() < kMaxOut + kMaxLine;
}

void Server::Publish() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection& connection = it->second;
    if (connection.watching && connection.next <= events_->last()) {
      Fill(&connection);
      if (!Flush(&connection)) {
        poller_->Forget(it->first);
        it = connections_.erase(it);
        continue;
      }
    }
    ++it;
  }
}

bool Server::drained() const {
  for (const auto& [fd, connection] : connections_) {
    if (!connection.out.empty()) return false;
    if (connection.watching && connection.next <= events_->last()) return false;
  }
  return true;
}

}  // namespace poolmark::guard
