#include "common/load/connection.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace poolmark::load {
namespace {

constexpr size_t kLargestRecord = 16384;  // RFC 8446, section 5.1: 2^14 bytes of plaintext

// The first timespec of SO_TIMESTAMPING: the software receive time
// (Documentation/networking/timestamping.rst).
std::optional<int64_t> StampOf(msghdr* message) {
  for (cmsghdr* item = CMSG_FIRSTHDR(message); item != nullptr; item = CMSG_NXTHDR(message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_TIMESTAMPING) continue;
    timespec stamp;
    std::memcpy(&stamp, CMSG_DATA(item), sizeof stamp);
    if (stamp.tv_sec == 0) return std::nullopt;
    return static_cast<int64_t>(stamp.tv_sec) * 1'000'000'000 + stamp.tv_nsec;
  }
  return std::nullopt;
}

}  // namespace

Connection::~Connection() {
  Close(false);
}

void Connection::Close(bool reset) {
  if (fd_ < 0) return;
  if (reset) {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  close(fd_);
  fd_ = -1;
  ready_ = connected_ = more_ = false;
  left_head_ = left_body_ = {};
  cipher_.clear();
}

Connection::Io Connection::Lost(const char* doing, int error_number) {
  error_ = std::string(doing) + ": " + std::strerror(error_number);
  return Io::kLost;
}

Connection::Io Connection::Open(const Target& target) {
  target_ = &target;
  address_ = 0;
  return OpenNext("the host has no address");
}

Connection::Io Connection::OpenNext(std::string last_error) {
  error_ = std::move(last_error);
  while (address_ < target_->addresses.size()) {
    const http::Address& address = target_->addresses[address_++];
    bool connected = false;
    int error_number = 0;
    const Result<int> fd = http::StartConnect(address, &connected, &error_number);
    if (!fd.ok()) {
      own_limit_ = error_number == EMFILE || error_number == ENFILE || error_number == EADDRNOTAVAIL ||
                   error_number == ENOBUFS || error_number == ENOMEM;
      error_ = std::string(fd.status().message());
      continue;
    }
    fd_ = *fd;
    error_.clear();
    own_limit_ = false;
    const int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    stamps_ = address.family() != AF_UNIX &&
              setsockopt(fd_, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) == 0;
    connected_ = connected;
    return connected ? Advance() : Io::kBlocked;
  }
  return Io::kLost;
}

Connection::Io Connection::Advance() {
  if (!connected_) {
    const int error = http::ConnectError(fd_);
    if (error != 0) {
      close(fd_);
      fd_ = -1;
      return OpenNext(std::string("connect: ") + std::strerror(error));
    }
    connected_ = true;
  }
  if (target_->tls == nullptr) {
    ready_ = true;
    return Io::kOk;
  }
  if (tls_ == nullptr) {
    auto session = http::TlsSession::Create(target_->tls, target_->url.host);
    if (!session.ok()) {
      error_ = std::string(session.status().message());
      return Io::kLost;
    }
    tls_ = *std::move(session);
  }
  for (;;) {
    const Result<bool> done = tls_->Handshake();
    tls_->TakeOutput(&cipher_);
    const Io flushed = FlushCipher();
    if (!done.ok()) {
      error_ = std::string(done.status().message());
      return Io::kLost;
    }
    if (flushed == Io::kLost) return flushed;
    if (*done) {
      ready_ = true;
      return Io::kOk;
    }
    char buffer[16384];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n == 0) {
      error_ = "the server closed the connection during the TLS handshake";
      return Io::kLost;
    }
    if (n < 0) return errno == EAGAIN || errno == EINTR ? Io::kBlocked : Lost("TLS handshake", errno);
    tls_->Feed(std::string_view(buffer, static_cast<size_t>(n)));
  }
}

Connection::Io Connection::Send(std::string_view head, std::string_view body) {
  if (tls_ != nullptr) {
    // The body begins in the head's record: a front that passes each record on by itself would wait for the
    // acknowledgement of the first one.
    const size_t with_head = std::min(body.size(), kLargestRecord - std::min(kLargestRecord, head.size()));
    head_copy_.assign(head).append(body.substr(0, with_head));
    Status status = tls_->Write(head_copy_);
    if (status.ok()) status = tls_->Write(body.substr(with_head));
    if (!status.ok()) {
      error_ = std::string(status.message());
      return Io::kLost;
    }
    tls_->TakeOutput(&cipher_);
    return Flush();
  }
  left_head_ = head;
  left_body_ = body;
  return Flush();
}

Connection::Io Connection::Flush() {
  if (tls_ != nullptr) return FlushCipher();
  while (!left_head_.empty() || !left_body_.empty()) {
    iovec parts[2] = {{const_cast<char*>(left_head_.data()), left_head_.size()},
                      {const_cast<char*>(left_body_.data()), left_body_.size()}};
    msghdr message{};
    message.msg_iov = left_head_.empty() ? parts + 1 : parts;
    message.msg_iovlen = left_head_.empty() ? 1 : 2;
    const ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return Lost("sending the request", errno);
      // The head is the caller's scratch: keep what is left of it.
      if (!left_head_.empty() && left_head_.data() != head_copy_.data()) {
        head_copy_.assign(left_head_);
        left_head_ = head_copy_;
      }
      return Io::kBlocked;
    }
    size_t done = static_cast<size_t>(n);
    sent_bytes_ += done;
    const size_t of_head = std::min(done, left_head_.size());
    left_head_.remove_prefix(of_head);
    left_body_.remove_prefix(done - of_head);
  }
  return Io::kOk;
}

Connection::Io Connection::FlushCipher() {
  while (cipher_done_ < cipher_.size()) {
    const ssize_t n = send(fd_, cipher_.data() + cipher_done_, cipher_.size() - cipher_done_, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? Io::kBlocked : Lost("sending the request", errno);
    }
    cipher_done_ += static_cast<size_t>(n);
    sent_bytes_ += static_cast<size_t>(n);
  }
  cipher_.clear();
  cipher_done_ = 0;
  return Io::kOk;
}

Connection::Io Connection::Receive(char* buffer, size_t size, Received* received) {
  received->bytes = {};
  received->kernel_realtime.reset();
  const size_t half = tls_ == nullptr ? size : size / 2;
  if (!more_) {
    iovec part{buffer, half};
    alignas(cmsghdr) char control[128];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (stamps_) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    const ssize_t n = recvmsg(fd_, &message, 0);
    if (n == 0) return Io::kClosed;
    if (n < 0) return errno == EAGAIN || errno == EINTR ? Io::kBlocked : Lost("reading the answer", errno);
    if (stamps_) received->kernel_realtime = StampOf(&message);
    received->bytes = std::string_view(buffer, static_cast<size_t>(n));
    if (tls_ == nullptr) return Io::kOk;
    tls_->Feed(received->bytes);
    received->bytes = {};
  }
  // TLS: all plaintext that is there, as one piece.
  char* const plain = buffer + half;
  size_t have = 0;
  bool closed = false;
  more_ = true;
  while (have < size - half) {
    const Result<size_t> n = tls_->Read(plain + have, size - half - have, &closed);
    if (!n.ok()) {
      error_ = std::string(n.status().message());
      return Io::kLost;
    }
    if (*n == 0) {
      more_ = false;
      break;
    }
    have += *n;
  }
  tls_->TakeOutput(&cipher_);
  if (FlushCipher() == Io::kLost) return Io::kLost;
  received->bytes = std::string_view(plain, have);
  return closed && have == 0 ? Io::kClosed : Io::kOk;
}

}  // namespace poolmark::load
