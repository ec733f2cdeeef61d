"""A cluster of real programs on the loopback interface: one controller, any number of agents, the CLI.

Everything lies below one directory. Processes are ended by pid. Used by the scripts in this directory.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("POOLMARK_BIN", ROOT / "build/release/bin"))
SHARED = pathlib.Path(os.environ.get("POOLMARK_SHARED_DATA", ROOT.parent / "shared"))
SKIPPED = 77


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIPPED)


def wait_until(condition, seconds, what):
    """Waits for a true value of condition() and gives it back."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def free_port():
    """A port that nobody listens on; the caller binds it soon."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


class Daemon:
    def __init__(self, name, argv, log, env=None):
        self.name, self.argv, self.log, self.env = name, [str(a) for a in argv], pathlib.Path(log), env
        self.process = None

    def start(self):
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(self.argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **(self.env or {}), "POOLMARK_LOG": "json"}, start_new_session=True)
        return self

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, sig=signal.SIGKILL):
        if self.alive():
            self.process.send_signal(sig)
            if sig in (signal.SIGKILL, signal.SIGTERM):
                self.process.wait(timeout=60)

    def tail(self, lines=15):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Cluster:
    def __init__(self, machines=("n0", "n1"), directory=None, executables=None, agent_options="", keep=False, agent_env=None, agent_prefix=None, serve_options=(), allow=""):
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="poolmark-e2e-"))
        self.keep = keep or bool(os.environ.get("POOLMARK_KEEP"))
        self.state = self.directory / "controller"
        self.config = self.directory / "cli"
        self.executables = {"poolmark-sim": BIN / "poolmark-sim", "poolmark": BIN / "poolmark"}
        redis = shutil.which("redis-server")
        if redis:
            self.executables["redis-server"] = redis
        iperf = shutil.which("iperf3")
        if iperf:
            self.executables["iperf3"] = iperf
        self.executables.update(executables or {})
        self.agent_options = agent_options
        self.allow = allow  # more of every machine's allow.yaml
        self.agent_env = agent_env or {}  # machine -> variables
        self.agent_prefix = agent_prefix or []  # words before the agent's command line, such as unshare -m sh SCRIPT
        self.serve_options = list(serve_options)
        self.agents = {}
        self.controller = None
        self.machines = list(machines)

    # --- where things run: overridden by clusters over network namespaces ----------------------------------
    def address(self, _machine):
        """The address of a machine; of the controller with None."""
        return "127.0.0.1"

    def inside(self, _machine):
        """Words before a command that runs on a machine; on the controller's with None."""
        return []

    def controller_of(self, _machine):
        """What an agent is told to dial, where that is not what its token says."""
        return None

    # --- life ---------------------------------------------------------------------------------------------
    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def sanitized(self):
        """What sanitizers of the build said, of every program that ran here: a finding is a failure, whatever else went well."""
        found = []
        for path in self.directory.rglob("*"):
            with contextlib.suppress(OSError):  # a guard may still be removing
                if path.is_file() and (path.suffix == ".log" or path.parent.parent.name == "logs"):
                    found += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()
                              if "Sanitizer" in line or "runtime error:" in line]
        return found[:20]

    def __exit__(self, kind, *_):
        if kind is not None:
            for daemon in [self.controller, *self.agents.values()]:
                if daemon is not None and daemon.log.exists():
                    print(f"--- {daemon.name}\n{daemon.tail()}", file=sys.stderr)
        for daemon in [*self.agents.values(), self.controller]:
            if daemon is not None:
                with contextlib.suppress(Exception):
                    daemon.kill(signal.SIGCONT)
                with contextlib.suppress(Exception):
                    daemon.kill(signal.SIGTERM)
                with contextlib.suppress(Exception):
                    daemon.kill()
        crashed = [f"{daemon.name} ended by signal {-daemon.process.returncode}" for daemon in [*self.agents.values(), self.controller]
                   if daemon is not None and daemon.process is not None and -(daemon.process.returncode or 0) in CRASHES]
        findings = crashed + self.sanitized()
        print("".join(f"--- {line}\n" for line in findings), end="", file=sys.stderr)
        if self.keep:
            print("kept: " + str(self.directory))
        else:
            shutil.rmtree(self.directory, ignore_errors=True)
        if findings and kind is None:
            raise AssertionError("a program crashed, or a sanitizer found something: " + findings[0])
        return False

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        run([BIN / "poolmark-controller", "init", "--state", self.state, "--cluster", "e2e", "--listen", f"{self.address(None)}:{free_port()}",
             "--enroll-listen", f"{self.address(None)}:{free_port()}", "--config-dir", self.config])
        self.start_controller()
        for name in self.machines:
            self.add_agent(name)
        self.wait_machines()
        return self

    def start_controller(self):
        self.controller = Daemon("controller", [*self.inside(None), BIN / "poolmark-controller", "serve", "--state", self.state,
                                                "--catalogue-dir", ROOT / "deploy", *self.serve_options],
                                 self.directory / "controller.log").start()
        wait_until(lambda: (self.state / "running.json").exists() and self.cli_ok("version"), 30, "controller answers")

    def add_agent(self, name):
        home = self.directory / name
        home.mkdir(exist_ok=True)
        allow = home / "allow.yaml"
        allow.write_text("version: 1\nexecutables:\n" + "".join(f"  {k}: {v}\n" for k, v in self.executables.items()) + self.allow)
        allow.chmod(0o600)
        config = home / "agent.yaml"
        config.write_text(f"version: 1\nmachine: {name}\nlisten: {self.address(name)}:0\nstate_dir: {home}/state\nwork_dir: {home}/work\n"
                          f"allow_file: {allow}\nsecrets_dir: {home}/secrets\ncatalogue_dir: {ROOT}/deploy/catalogue\n" +
                          ("run_as: root\n" if os.geteuid() == 0 and "run_as:" not in self.agent_options else "") + self.agent_options)
        token = run([BIN / "poolmark-controller", "token", "create", "--state", self.state, "--machine", name]).strip()
        run([*self.inside(name), BIN / "poolmark-agent", "join", token, "--config", config])
        dials = self.controller_of(name)
        if dials:
            (home / "state/controller").write_text(dials + "\n")
        agent = Daemon(name, [*self.inside(name), *self.agent_prefix, BIN / "poolmark-agent", "run", "--config", config], self.directory / f"{name}.log", self.agent_env.get(name))
        self.agents[name] = agent.start()
        return agent

    def wait_machines(self, seconds=30):
        def ready():
            return len([m for m in self.cli_json("machines") if m["state"] == "READY"]) == len(self.machines)
        wait_until(ready, seconds, "every machine is ready")

    # --- the CLI ------------------------------------------------------------------------------------------
    def cli(self, *words, check=True, timeout=600):
        return run([*self.inside(None), BIN / "poolmark", *words], check=check, timeout=timeout, env={"POOLMARK_CONFIG_DIR": str(self.config)})

    def cli_code(self, *words, timeout=600):
        done = subprocess.run([str(w) for w in [*self.inside(None), BIN / "poolmark", *words]], capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, "POOLMARK_CONFIG_DIR": str(self.config)})
        return done.returncode, done.stdout, done.stderr

    def cli_ok(self, *words):
        try:
            return self.cli_code(*words, timeout=20)[0] == 0
        except subprocess.TimeoutExpired:
            return False

    def cli_json(self, *words):
        return json.loads(self.cli(*words, "-o", "json"))

    # --- jobs ---------------------------------------------------------------------------------------------
    def write_job(self, name, stacks, workloads, repeats=1, machines=None, extra=""):
        where = self.directory / "jobs" / name
        where.mkdir(parents=True, exist_ok=True)
        names = machines or self.machines
        (where / "pool.yaml").write_text(f"version: 1\nhead: {names[0]}\nmachines:\n" +
                                         "".join(f"  - {{name: {n}, net: {{tcp: {self.address(n)}}}}}\n" for n in names))
        (where / "job.yaml").write_text(f"version: 1\npool: pool.yaml\nstacks: {stacks}\nworkloads:\n  {workloads}\nrepeats: {repeats}\n"
                                        "preflight: {line_rate: {runs: 1, seconds: 1}}\n" + extra)
        return where / "job.yaml"

    def submit(self, job, *words):
        return self.cli_json("submit", job, *words)["job"]

    def job(self, job_id):
        return self.cli_json("status", job_id)

    def wait(self, job_id, seconds=300):
        """The job once it has ended."""
        def ended():
            with contextlib.suppress(AssertionError):  # the controller may be away for a while
                job = self.job(job_id)
                return job if job["finished"] else None
        return wait_until(ended, seconds, f"job {job_id} ends")

    def wait_state(self, job_id, state, seconds=120):
        return wait_until(lambda: (lambda j: j if j["state"].upper() == state else None)(self.job(job_id)), seconds, f"job is {state}")

    def fetch(self, job_id):
        where = self.directory / "results" / job_id
        self.cli("fetch", job_id, where)
        return where

    def follow(self, job_id, step, seconds=60):
        """Follows the job's events; true as soon as it enters the step."""
        argv = [str(a) for a in [*self.inside(None), BIN / "poolmark", "events", job_id, "-f", "-o", "jsonl"]]
        follower = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "POOLMARK_CONFIG_DIR": str(self.config)})
        watchdog = threading.Timer(seconds, follower.kill)
        watchdog.start()
        try:
            for line in follower.stdout:
                event = json.loads(line)
                if event.get("kind") == "state" and event.get("state", "").upper().removeprefix("JOB_STATE_") == step:
                    return True
        finally:
            watchdog.cancel()
            follower.kill()
            follower.wait()
        return False

    @contextlib.contextmanager
    def held_in(self, job_id, step, seconds=120):
        """Stops the controller (SIGSTOP) while its store says that the job is in the step, and lets it go on afterwards: a step can
        be shorter than the look at it. Gives whether it was caught there; a job that ended meanwhile was not."""
        look = sqlite3.connect(f"file:{self.state}/poolmark.db?mode=ro", uri=True)
        state = lambda: look.execute("SELECT state FROM jobs WHERE id=?", (job_id,)).fetchone()[0]  # noqa: E731
        caught, end = False, time.monotonic() + seconds
        try:
            while not caught and time.monotonic() < end and state() not in ("SUCCEEDED", "INVALID", "FAILED", "CANCELLED", "REFUSED"):
                if state() == step:
                    self.controller.kill(signal.SIGSTOP)
                    caught = state() == step  # else it moved on between the look and the signal: the next time
                    if not caught:
                        self.controller.kill(signal.SIGCONT)
                time.sleep(0.001)
            yield caught
        finally:
            self.controller.kill(signal.SIGCONT)
            look.close()

    # --- processes of jobs --------------------------------------------------------------------------------
    def processes(self, mark, machine=None):
        """Pids of this cluster's processes whose command line begins with the mark (program without its path)."""
        found = []
        below = str(self.directory / machine) if machine else str(self.directory)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
                environ += os.readlink(f"/proc/{pid}/cwd")  # redis-server writes over its environment
            except OSError:
                continue
            program = command.split(" ")[0].rsplit("/", 1)[-1] + " " + " ".join(command.split(" ")[1:])
            if program.startswith(mark) and below in command + environ:
                found.append(int(pid))
        return sorted(found)

    # --- what a job may leave -----------------------------------------------------------------------------
    def leftovers(self):
        """Processes, directories and cgroups of jobs that are still there; empty when all is clean."""
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if b"POOLMARK_RUN=" in environ and str(self.directory) in command + environ.decode(errors="replace"):
                left.append(f"process {pid}: {command[:120]}")
            elif "poolmark-guard" in command and str(self.directory) in command:
                left.append(f"guard {pid}: {command[:120]}")
        for name in self.machines:
            work = self.directory / name / "work"
            if work.exists():
                left += [f"directory {entry}" for entry in work.iterdir()]
        return left


def run(argv, check=True, timeout=600, env=None):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(str(a) for a in argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def report(results):
    """Prints one line a test and exits 1 if any failed: results is a list of (name, error or None)."""
    failed = [name for name, error in results if error]
    for name, error in results:
        print(("FAILED " if error else "ok     ") + name + (": " + str(error) if error else ""))
    sys.exit(1 if failed else 0)
