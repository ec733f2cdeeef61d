#include "agent/guard/ports.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "agent/guard/proc.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::guard {
namespace {

// 1: bound, 0: taken, -1: this family does not exist here.
int TryBind(int family, const sockaddr* address, socklen_t length) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return -1;
  int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (bind(fd.get(), address, length) != 0) return errno == EADDRINUSE ? 0 : -1;
  return listen(fd.get(), 1) == 0 ? 1 : 0;
}

bool HasSocket(pid_t pid, const std::set<uint64_t>& inodes) {
  std::string path = "/proc/" + std::to_string(pid) + "/fd";
  std::unique_ptr<DIR, int (*)(DIR*)> fds(opendir(path.c_str()), closedir);
  while (fds) {
    dirent* entry = readdir(fds.get());
    if (entry == nullptr) break;
    char target[64];
    ssize_t length = readlinkat(dirfd(fds.get()), entry->d_name, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = '\0';
    unsigned long long inode = 0;
    if (std::sscanf(target, "socket:[%llu]", &inode) == 1 && inodes.count(inode) != 0) return true;
  }
  return false;
}

}  // namespace

bool CanBindPort(uint16_t port) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  return TryBind(AF_INET, reinterpret_cast<sockaddr*>(&four), sizeof four) == 1 &&
         TryBind(AF_INET6, reinterpret_cast<sockaddr*>(&six), sizeof six) != 0;
}

std::set<uint64_t> ParseListeners(std::string_view text, uint16_t port) {
  std::set<uint64_t> inodes;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    char address[64];
    unsigned local_port = 0;
    unsigned state = 0;
    unsigned long long inode = 0;
    // sl local rem st tx:rx tr:when retrnsmt uid timeout inode
    int got =
        std::sscanf(line.c_str(), " %*d: %63[0-9A-Fa-f]:%x %*63[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %llu",
                    address, &local_port, &state, &inode);
    constexpr unsigned kListen = 0x0a;
    if (got == 4 && local_port == port && state == kListen) inodes.insert(inode);
  }
  return inodes;
}

std::set<uint64_t> ListenerInodes(uint16_t port) {
  std::set<uint64_t> inodes = ParseListeners(ReadPseudo("/proc/net/tcp", 64u << 20), port);
  for (uint64_t inode : ParseListeners(ReadPseudo("/proc/net/tcp6", 64u << 20), port)) inodes.insert(inode);
  return inodes;
}

std::vector<PortHolder> PortHolders(uint16_t port) {
  std::vector<PortHolder> holders;
  std::set<uint64_t> inodes = ListenerInodes(port);
  if (inodes.empty()) return holders;
  for (pid_t pid : AllPids()) {
    if (!HasSocket(pid, inodes)) continue;
    auto stat = ReadStat(pid);
    holders.push_back(PortHolder{pid, stat ? stat->command : "?"});
  }
  return holders;
}

bool HoldsPort(uint16_t port, const std::vector<pid_t>& pids) {
  std::set<uint64_t> inodes = ListenerInodes(port);
  if (inodes.empty()) return false;
  for (pid_t pid : pids) {
    if (HasSocket(pid, inodes)) return true;
  }
  return false;
}

}  // namespace poolmark::guard
