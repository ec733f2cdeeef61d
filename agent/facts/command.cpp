#include "agent/facts/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"

namespace poolmark::agent {
namespace {

constexpr char kDefaultPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string SearchPath() {
  const char* path = std::getenv("PATH");
  return path != nullptr && *path != '\0' ? path : kDefaultPath;
}

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return FromErrno("", "making a pipe", errno);
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

// What a process in uninterruptible sleep takes to end after SIGKILL is the driver's affair.
constexpr Nanoseconds kKilledWithin = std::chrono::seconds(3);

// Children that SIGKILL did not end, until they do. Thread-safe.
class Abandoned {
 public:
  void Add(const std::string& name, int pid) {
    std::lock_guard lock(mutex_);
    pids_.emplace(pid, name);
  }
  // One of this tool that is still there.
  std::optional<int> Find(const std::string& name) {
    std::lock_guard lock(mutex_);
    std::erase_if(pids_, [](const auto& entry) { return ::waitpid(entry.first, nullptr, WNOHANG) != 0; });
    for (const auto& [pid, tool] : pids_) {
      if (tool == name) return pid;
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::string> pids_;
};
Abandoned& LeftBehind() {
  static Abandoned abandoned;
  return abandoned;
}

class PosixChild final : public Child {
 public:
  PosixChild(std::string name, int pid, Fd out, Fd err, size_t limit)
      : name_(std::move(name)), pid_(pid), out_(std::move(out)), err_(std::move(err)), limit_(limit) {
    pidfd_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  }
  ~PosixChild() override { Stop(Nanoseconds(0)); }

  int pid() const override { return pid_; }
  bool ended() const override { return ended_; }

  const CommandOutput& Poll() override {
    if (ended_) return output_;
    Drain();
    // Seen as a zombie first, so that the group is ended while its number cannot be taken by another.
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_) {
      Reap();
    }
    return output_;
  }

  bool Wait(Nanoseconds timeout) override {
    const Nanoseconds deadline = RealClock().Steady() + timeout;
    for (;;) {
      Poll();
      if (ended_) return true;
      const Nanoseconds left = deadline - RealClock().Steady();
      if (left <= Nanoseconds(0)) return false;
      std::array<pollfd, 3> fds{
          {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0}}};
      int64_t wait_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
      if (pidfd_.get() < 0) wait_ms = std::min<int64_t>(wait_ms, 20);  // kernels before 5.3
      ::poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(wait_ms, 60'000)));
    }
  }

  CommandOutput Stop(Nanoseconds grace) override {
    Poll();
    if (!ended_ && grace > Nanoseconds(0)) {
      ::kill(-pid_, SIGTERM);
      Wait(grace);
    }
    if (!ended_) {
      ::kill(-pid_, SIGKILL);
      Wait(kKilledWithin);
    }
    if (!ended_) Abandon();
    return output_;
  }

 private:
  void Drain() {
    Read(&out_, &output_.out);
    Read(&err_, &output_.err);
  }
  void Read(Fd* fd, std::string* into) {
    char buffer[16384];
    // A bounded number of reads: a child that writes without end must not keep us here.
    for (int i = 0; i < 256 && fd->get() >= 0; ++i) {
      const ssize_t got = ::read(fd->get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) {
        fd->Close();
        return;
      }
      const size_t room = limit_ - std::min(limit_, into->size());
      into->append(buffer, std::min(room, static_cast<size_t>(got)));
      if (static_cast<size_t>(got) > room) output_.truncated = true;
    }
  }
  void Abandon() {
    LeftBehind().Add(name_, pid_);
    out_.Close();
    err_.Close();
    ended_ = true;
  }
  void Reap() {
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    Drain();
    out_.Close();
    err_.Close();
    if (WIFEXITED(status)) output_.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) output_.exit_signal = WTERMSIG(status);
    ended_ = true;
  }

  std::string name_;
  int pid_;
  Fd out_, err_, pidfd_;
  size_t limit_;
  bool ended_ = false;
  CommandOutput output_;
};

class PosixSpawner final : public Spawner {
 public:
  Result<std::unique_ptr<Child>> Start(const Command& command) override {
    if (command.argv.empty()) return Internal("", "an empty command");
    const auto executable = FindExecutable(command.argv[0]);
    if (!executable)
      return NotFound(command.argv[0], "no such executable in PATH", "install it on this machine");
    if (const auto hung = LeftBehind().Find(command.argv[0])) {
      return ToStatus(Error{absl::StatusCode::kDeadlineExceeded, "tool_hangs", command.argv[0],
                            absl::StrCat("process ", *hung,
                                         " of it, started earlier, hangs and cannot be killed: it is not "
                                         "started again"),
                            "look at the kernel's log (dmesg); such a process ends with a reboot only"});
    }
    POOLMARK_ASSIGN_OR_RETURN(Pipe out, MakePipe());
    POOLMARK_ASSIGN_OR_RETURN(Pipe err, MakePipe());

    std::vector<std::string> environment = {absl::StrCat("PATH=", SearchPath()), "HOME=/", "LC_ALL=C"};
    for (const auto& [name, value] : command.env) environment.push_back(absl::StrCat(name, "=", value));
    std::vector<char*> argv, envp;
    for (const std::string& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& word : environment) envp.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t pid = 0;
    const int error =
        ::posix_spawn(&pid, executable->c_str(), &actions, &attributes, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0)
      return Unavailable(*executable, absl::StrCat("cannot be started: ", std::strerror(error)));
    return std::make_unique<PosixChild>(command.argv[0], pid, std::move(out.read), std::move(err.read),
                                        command.max_output_bytes);
  }
};

std::string FirstLines(const std::string& text, size_t most) {
  std::string out = ValidUtf8(text.substr(0, most));
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  size_t start = out.find_first_not_of("\n ");
  if (start == std::string::npos) return "";
  out.erase(0, start);
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

}  // namespace

std::unique_ptr<Spawner> MakeSpawner() {
  return std::make_unique<PosixSpawner>();
}

Result<CommandOutput> RunCommand(Spawner& spawner, const Command& command, Nanoseconds timeout) {
  POOLMARK_ASSIGN_OR_RETURN(auto child, spawner.Start(command));
  const bool ended = child->Wait(timeout);
  CommandOutput output = child->Stop(ended ? Nanoseconds(0) : std::chrono::milliseconds(500));
  output.timed_out = !ended;
  output.limit = timeout;
  return output;
}

std::string Describe(const Command& command, const CommandOutput& output) {
  std::string what;
  if (output.timed_out) {
    what = absl::StrCat(
        "did not end ",
        output.limit.count() > 0 ? absl::StrCat("within ", FormatDuration(output.limit)) : "in time",
        " and was stopped");
  } else if (output.exit_code) {
    what = absl::StrCat("exited with ", *output.exit_code);
  } else {
    what = absl::StrCat("was ended by signal ", output.exit_signal.value_or(0));
  }
  std::string words = FirstLines(output.err, 300);
  if (words.empty()) words = FirstLines(output.out, 300);
  const std::string name = command.argv.empty() ? "" : command.argv[0];
  return absl::StrCat(name, " ", what, words.empty() ? "" : ": ", words);
}

std::optional<std::string> FindExecutable(const std::string& name, const std::string& root,
                                          const std::string& path) {
  const auto usable = [](const std::string& file) {
    struct stat info {};
    return ::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(file.c_str(), X_OK) == 0;
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    const std::string file = root == "/" ? name : JoinPath(root, name);
    return usable(file) ? std::optional(file) : std::nullopt;
  }
  const std::string search = path.empty() ? SearchPath() : path;
  size_t start = 0;
  while (start <= search.size()) {
    size_t end = search.find(':', start);
    if (end == std::string::npos) end = search.size();
    const std::string directory = search.substr(start, end - start);
    start = end + 1;
    if (directory.empty() || directory[0] != '/') continue;  // never the working directory
    const std::string file = JoinPath(root == "/" ? directory : JoinPath(root, directory.substr(1)), name);
    if (usable(file)) return file;
  }
  return std::nullopt;
}

}  // namespace poolmark::agent
