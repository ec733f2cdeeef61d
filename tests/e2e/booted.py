"""A machine of its own for an installation: this system's files under an overlay, systemd as its first process, own
process, network, mount and cgroup namespaces. What is installed in it is gone with it. Needs root, systemd and overlayfs;
`Booted.why_not()` says what is missing."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

SYSTEMD = "/lib/systemd/systemd"
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
# $1: where; $2: addresses. Ends as systemd, which starts nothing but what the target asks for.
BOOT = r"""
set -e
D=$1/root
mount --make-rprivate /
mkdir -p $D $1/rw
mount -t tmpfs tmpfs $1/rw
mkdir $1/rw/upper $1/rw/work
mount -t overlay overlay -o lowerdir=/,upperdir=$1/rw/upper,workdir=$1/rw/work $D
mount -t proc proc $D/proc
mount -t sysfs -o ro sysfs $D/sys
if grep -q '^0::' /proc/self/cgroup && [ $(wc -l </proc/self/cgroup) = 1 ]; then
  mount -t cgroup2 cgroup2 $D/sys/fs/cgroup
else
  mount -t tmpfs tmpfs $D/sys/fs/cgroup
  mkdir $D/sys/fs/cgroup/unified $D/sys/fs/cgroup/systemd
  mount -t cgroup2 cgroup2 $D/sys/fs/cgroup/unified
  mount -t cgroup -o none,name=systemd cgroup $D/sys/fs/cgroup/systemd
fi
for place in tmp run dev; do mount -t tmpfs -o mode=755 tmpfs $D/$place; done
chmod 1777 $D/tmp
mkdir $D/dev/shm $D/dev/pts
mount -t tmpfs tmpfs $D/dev/shm
mount -t devpts devpts $D/dev/pts
ln -s pts/ptmx $D/dev/ptmx
ln -s /proc/self/fd $D/dev/fd
for node in null zero full random urandom tty; do touch $D/dev/$node; mount --bind /dev/$node $D/dev/$node; done
ip link set lo up
for address in $2; do ip address add $address/32 dev lo; done
rm -rf $D/etc/systemd/system $D/etc/poolmark $D/root/.config/poolmark
mkdir -p $D/etc/systemd/system
printf '[Unit]\nRequires=sysinit.target systemd-journald.service\nAllowIsolate=yes\n' >$D/etc/systemd/system/booted.target
exec env -i container=lxc PATH=$PATH chroot $D /lib/systemd/systemd --unit=booted.target --log-target=console --log-level=notice
"""


class DidNotBoot(Exception):
    """This machine can't host another: what is tested in it hasn't run at all."""


class Booted:
    @staticmethod
    def why_not():
        if os.geteuid() != 0:
            return "no root"
        for path in (SYSTEMD, "/usr/bin/unshare", "/usr/bin/nsenter"):
            if not os.path.exists(path):
                return f"no {path}"
        if "overlay" not in pathlib.Path("/proc/filesystems").read_text():
            return "no overlayfs"
        done = subprocess.run(["unshare", "-m", "-p", "-f", "-u", "-i", "-n", "-C", "true"], capture_output=True, text=True)
        return f"no namespaces: {done.stderr.strip()}" if done.returncode else None

    def __init__(self, addresses):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="poolmark-booted-"))
        self.addresses = addresses
        self.cgroups = []
        self.outer = None
        self.pid = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        self._own_cgroups()
        (self.place / "boot").write_text(BOOT)
        with open(self.place / "console", "wb") as console:
            self.outer = subprocess.Popen(["unshare", "-m", "-p", "-f", "-u", "-i", "-n", "-C", "sh", self.place / "boot", self.place, " ".join(self.addresses)],
                                          stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True, preexec_fn=self._enter_cgroups)
        end = time.monotonic() + 120
        while True:
            if self.outer.poll() is not None:
                raise DidNotBoot("it did not boot: " + self.console())
            children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
            if children and pathlib.Path(f"/proc/{children[0]}/comm").read_text().strip() == "systemd":
                self.pid = int(children[0])
                if self.run("systemctl is-active booted.target", check=False)[0] == 0:
                    return
            if time.monotonic() > end:
                raise DidNotBoot("it did not boot within 2 minutes: " + self.console())
            time.sleep(0.1)

    def console(self):
        return (self.place / "console").read_text(errors="replace")[-3000:]

    def run(self, command, check=True, timeout=120):
        """A shell command inside, as root: (exit code, both streams)."""
        done = subprocess.run(["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w", "env", "-i",
                               *[f"{k}={v}" for k, v in ENV.items()], "sh", "-c", command], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        assert not check or done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}"
        return done.returncode, done.stdout

    def put(self, source, target):
        """Copies a file of outside to a path inside."""
        shutil.copy(source, f"/proc/{self.pid}/root{target}")

    def __exit__(self, *_):
        if self.outer is not None and self.outer.poll() is None:
            if self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)  # the first process of its namespace: all others go with it
            else:
                self.outer.kill()
            self.outer.wait(timeout=60)
        for top in self.cgroups:
            end = time.monotonic() + 20
            while top.exists() and time.monotonic() < end:
                for path, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(path)
                time.sleep(0.05)
        shutil.rmtree(self.place, ignore_errors=True)

    # systemd makes its groups below one of ours in every hierarchy, so that none of them stays on this machine.
    def _own_cgroups(self):
        current = {}
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            current[frozenset(controllers.split(",")) if controllers else frozenset(["cgroup2"])] = path
        for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
            _, place, kind, options = line.split()[:4]
            for controllers, path in current.items():
                if (kind == "cgroup2" and controllers == {"cgroup2"}) or (kind == "cgroup" and controllers <= set(options.split(","))):
                    own = pathlib.Path(place + path.rstrip("/")) / self.place.name
                    with contextlib.suppress(OSError):
                        own.mkdir()
                        for inherited in ("cpuset.cpus", "cpuset.mems"):
                            if kind == "cgroup" and (own / inherited).exists():
                                (own / inherited).write_text((own.parent / inherited).read_text())
                        self.cgroups.append(own)

    def _enter_cgroups(self):
        for own in self.cgroups:
            with contextlib.suppress(OSError):
                (own / "cgroup.procs").write_text(str(os.getpid()))
