#include "agent/guard/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#include <charconv>
#include <memory>

namespace poolmark::guard {

std::string ReadPseudo(const std::string& path, size_t limit) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  char buffer[16384];
  while (fd && text.size() < limit) {
    ssize_t got = read(fd.get(), buffer, std::min(sizeof buffer, limit - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

std::optional<ProcStat> ParseStat(std::string_view text) {
  size_t open = text.find('(');
  size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  ProcStat stat;
  auto [end, error] = std::from_chars(text.data(), text.data() + open, stat.pid);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  stat.command = std::string(text.substr(open + 1, close - open - 1));
  // Field 3 (state) follows ") "; field 22 is the start time.
  std::string_view rest = text.substr(close + 1);
  int field = 2;
  while (!rest.empty()) {
    size_t begin = rest.find_first_not_of(" \n");
    if (begin == std::string_view::npos) break;
    rest.remove_prefix(begin);
    size_t length = std::min(rest.find_first_of(" \n"), rest.size());
    std::string_view word = rest.substr(0, length);
    rest.remove_prefix(length);
    ++field;
    if (field == 3) stat.state = word[0];
    if (field == 4) std::from_chars(word.data(), word.data() + word.size(), stat.parent);
    if (field == 6) std::from_chars(word.data(), word.data() + word.size(), stat.session);
    if (field == 22) {
      auto result = std::from_chars(word.data(), word.data() + word.size(), stat.start_time);
      if (result.ec != std::errc()) return std::nullopt;
      return stat;
    }
  }
  return std::nullopt;
}

std::optional<ProcStat> ReadStat(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  return ParseStat(ReadPseudo("/proc/" + std::to_string(pid) + "/stat", 4096));
}

std::vector<pid_t> AllPids() {
  std::vector<pid_t> pids;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc"), closedir);
  while (directory) {
    dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    std::string_view name(entry->d_name);
    pid_t pid = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size() && pid > 0) pids.push_back(pid);
  }
  return pids;
}

const std::string& BootId() {
  static const std::string id = [] {
    std::string text = ReadPseudo("/proc/sys/kernel/random/boot_id", 64);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }();
  return id;
}

bool IsAlive(pid_t pid, uint64_t start_time) {
  auto stat = ReadStat(pid);
  return stat && stat->start_time == start_time && stat->state != 'Z' && stat->state != 'X';
}

UniqueFd OpenPid(pid_t pid, uint64_t start_time) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return {};
  // Looked at after the descriptor was taken: if the start time is right now, the descriptor means it.
  auto stat = ReadStat(pid);
  if (!stat || stat->start_time != start_time) return {};
  return fd;
}

bool SignalPid(int pidfd, int signal) {
  return pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0;
}

bool HasEnvironmentWord(pid_t pid, const std::string& word) {
  std::string environment = ReadPseudo("/proc/" + std::to_string(pid) + "/environ", 4u << 20);
  size_t at = 0;
  while (at < environment.size()) {
    size_t end = std::min(environment.find('\0', at), environment.size());
    if (std::string_view(environment).substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace poolmark::guard
