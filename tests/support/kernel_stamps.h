// Keeps the kernel's receive stamps switched on. The kernel turns them on for the first socket that asks, but
// a moment later (deferred work), so that the first packets of a test on a busy machine may come without.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

namespace poolmark::test {

class KernelStamps {
 public:
  KernelStamps() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const int one = 1;
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        setsockopt(fd_, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) != 0)
      return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!on_ && std::chrono::steady_clock::now() < end) {
      const auto sent = std::chrono::system_clock::now().time_since_epoch();
      if (sendto(fd_, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), length) != 1) return;
      // A datagram without a stamp gets the time at which it is read: a pause before the read tells them
      // apart.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto stamp = Stamp();
      on_ = stamp.count() != 0 && stamp - sent < std::chrono::milliseconds(15);
    }
  }
  ~KernelStamps() { close(fd_); }
  KernelStamps(const KernelStamps&) = delete;
  KernelStamps& operator=(const KernelStamps&) = delete;
  bool on() const { return on_; }

 private:
  std::chrono::nanoseconds Stamp() {
    char byte = 0;
    char control[256];
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(fd_, &message, 0) != 1) return {};
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_TIMESTAMPNS) continue;
      timespec time{};
      std::memcpy(&time, CMSG_DATA(head), sizeof time);
      return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    }
    return {};
  }

  int fd_;
  bool on_ = false;
};

}  // namespace poolmark::test
