#include "agent/guard/spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/guard/proc.h"

namespace poolmark::guard {
namespace {

struct ChildPlan {
  const char* executable;
  char* const* argv;
  char* const* env;
  const char* directory;
  int null_fd;
  int stdout_fd;
  int stderr_fd;
  int error_fd;
  int cgroup_fd;  // to join by hand, where the kernel could not do it at birth
  const SpawnRequest* request;
  pid_t parent;
};

// What failed in the child, sent through the pipe that closes at exec.
struct ChildError {
  int error_number;
  char step[28];
};

[[noreturn]] void Fail(const ChildPlan& plan, const char* step) {
  ChildError error{errno, {}};
  for (size_t i = 0; i + 1 < sizeof error.step && step[i] != '\0'; ++i) error.step[i] = step[i];
  (void)!write(plan.error_fd, &error, sizeof error);
  _exit(127);
}

void ArmParentDeath(const ChildPlan& plan) {
  if (!plan.request->die_with_parent) return;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail(plan, "set the parent-death signal");
  if (getppid() != plan.parent) _exit(127);  // it died before the signal was armed
}

// Between fork and exec: system calls only, no allocation.
[[noreturn]] void RunChild(const ChildPlan& plan) {
  ArmParentDeath(plan);
  if (plan.cgroup_fd >= 0) {
    int procs = openat(plan.cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (procs < 0 || write(procs, "0", 1) != 1) Fail(plan, "join the cgroup");
  }
  int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    (void)!write(score, "0", 1);  // the guard's own protection is not inherited
    close(score);
  }
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();
  umask(022);
  rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (dup2(plan.null_fd, 0) < 0 || dup2(plan.stdout_fd, 1) < 0 || dup2(plan.stderr_fd, 2) < 0) {
    Fail(plan, "set up standard streams");
  }
  if (dup2(plan.error_fd, 3) < 0) Fail(plan, "set up standard streams");
  ChildPlan moved = plan;
  moved.error_fd = 3;
  fcntl(3, F_SETFD, FD_CLOEXEC);
  syscall(SYS_close_range, 4u, ~0u, 0u);
  if (plan.request->gid && (setgroups(0, nullptr) != 0 || setgid(*plan.request->gid) != 0))
    Fail(moved, "setgid");
  if (plan.request->uid && setuid(*plan.request->uid) != 0) Fail(moved, "setuid");
  ArmParentDeath(moved);  // a change of user clears it
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (chdir(plan.directory) != 0) Fail(moved, "chdir");
  execve(plan.executable, plan.argv, plan.env);
  Fail(moved, "execute");
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Fault Spawn(const SpawnRequest& request, Spawned* spawned) {
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return Fault::Errno("pipe");
  UniqueFd error_read(error_pipe[0]);
  // Out of the way of the numbers that the child uses itself.
  UniqueFd error_write(fcntl(error_pipe[1], F_DUPFD_CLOEXEC, 10));
  close(error_pipe[1]);
  UniqueFd null_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd || !error_write) return Fault::Errno("open /dev/null");
  UniqueFd cgroup;
  if (!request.cgroup.empty()) {
    cgroup = UniqueFd(open(request.cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!cgroup) return Fault::Errno("open cgroup '" + request.cgroup + "'");
  }
  std::vector<char*> argv = Pointers(request.argv);
  std::vector<char*> env = Pointers(request.env);
  ChildPlan plan{request.executable.c_str(),
                 argv.data(),
                 env.data(),
                 request.directory.empty() ? "/" : request.directory.c_str(),
                 null_fd.get(),
                 request.stdout_fd >= 0 ? request.stdout_fd : null_fd.get(),
                 request.stderr_fd >= 0 ? request.stderr_fd : null_fd.get(),
                 error_write.get(),
                 -1,
                 &request,
                 getpid()};

  int pidfd = -1;
  clone_args args{};
  args.flags = CLONE_PIDFD | (cgroup ? CLONE_INTO_CGROUP : 0);
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = cgroup ? static_cast<uint64_t>(cgroup.get()) : 0;
  long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) RunChild(plan);
  if (pid < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == EOPNOTSUPP)) {
    plan.cgroup_fd = cgroup.get();
    pid = fork();
    if (pid == 0) RunChild(plan);
    if (pid > 0) pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  }
  if (pid < 0) return Fault::Errno("fork");
  spawned->pid = static_cast<pid_t>(pid);
  spawned->pidfd = UniqueFd(pidfd);
  if (pidfd >= 0) fcntl(pidfd, F_SETFD, FD_CLOEXEC);
  // Ours and unreaped until the caller waits for it, so its pid cannot have been given to another.
  auto stat = ReadStat(spawned->pid);
  spawned->start_time = stat ? stat->start_time : 0;

  error_write.Close();
  ChildError error{};
  ssize_t got;
  do {
    got = read(error_read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof error)) return {};  // closed by exec
  waitpid(spawned->pid, nullptr, 0);
  error.step[sizeof error.step - 1] = '\0';
  return Fault("spawn", std::string("cannot ") + error.step + " '" + request.executable +
                            "': " + std::strerror(error.error_number));
}

}  // namespace poolmark::guard
