"""A container engine that behaves, without containers: a socket that runs each "container" as a process of its own, outside of
whoever asked, and a command (`docker` or `podman`) that asks it as that client does, with its words and exit codes (recorded
from docker 28.2.2 and podman 4.3.1). Containers live on when the client is killed; names conflict; labels are kept; stop, rm
and inspect work. It proves our side of the contract, not docker's or podman's: results of tests with it say so."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

CLIENT = """#!{python}
import json, os, signal, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({socket!r})
connection.sendall(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}).encode() + b"\\n")
signal.signal(signal.SIGTERM, lambda *_: connection.sendall(b"TERM\\n"))
with connection.makefile("rb") as replies:
    for line in replies:
        reply = json.loads(line)
        if "exit" in reply:
            sys.exit(reply["exit"])
        stream = sys.stderr if reply.get("error") else sys.stdout
        stream.write(reply["out"])
        stream.flush()
sys.exit(125)
"""


ABSENT = {"docker": ("Error response from daemon: No such container: {name}\n", 1), "podman": ("Error: inspecting object: no such container {name}\n", 125)}
TAKEN = {"docker": "docker: Error response from daemon: Conflict. The container name \"/{name}\" is already in use by container \"38b4f1e6\".\n",
         "podman": "Error: creating container storage: the container name \"{name}\" is already in use by 38b4f1e6. You have to remove that "
                   "container to be able to reuse that name: that name is already in use\n"}
NO_IMAGE = {"docker": "Unable to find image '{name}' locally\n", "podman": "Error: short-name \"{name}\" did not resolve to an alias\n"}

NO_SUCH_IMAGE = {"docker": "Error response from daemon: No such image: {name}\n", "podman": "Error: {name}: image not known\n"}


class FakeEngine:
    def __init__(self, directory, images, dialect="docker"):
        self.dialect = dialect
        self.images = {name: str(program) for name, program in images.items()}  # the entry point of each
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.client = self.directory / dialect
        path = str(self.directory / "socket")
        self.client.write_text(CLIENT.format(python=sys.executable, socket=path))
        self.client.chmod(0o755)
        self.containers = {}  # name -> {"labels": …, "process": …}
        self.calls = []       # argv of every call
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(32)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        for container in self.containers.values():
            container["process"].kill()
            container["process"].wait()

    def run_stranger(self, name, argv):
        """A container of somebody else's."""
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, start_new_session=True)
        self.containers[name] = {"labels": {"owner": "somebody"}, "process": process}

    def running(self, name):
        return name in self.containers and self.containers[name]["process"].poll() is None

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        replies = threading.Lock()

        def say(**reply):
            try:
                with replies:
                    connection.sendall(json.dumps(reply).encode() + b"\n")
            except OSError:
                pass  # the client was killed; the container lives on
        with connection, connection.makefile("rb") as requests:
            request = json.loads(requests.readline())
            argv = request["argv"]
            with self._lock:
                self.calls.append(argv)
            if argv[0] == "run":
                self._run(argv[1:], request, requests, say)
            elif argv[:2] == ["image", "inspect"]:
                if argv[-1] in self.images:
                    say(out="sha256:0123\n")
                    return say(exit=0)
                say(out=NO_SUCH_IMAGE[self.dialect].format(name=argv[-1]), error=1)
                say(exit=1 if self.dialect == "docker" else 125)
            elif argv[0] == "inspect":
                container = self.containers.get(argv[-1])
                if container is None:
                    words, code = ABSENT[self.dialect]
                    if self.dialect == "docker":
                        say(out="\n")
                    say(out=words.format(name=argv[-1]), error=1)
                    return say(exit=code)
                if self.dialect == "podman":  # as without root: its warnings must not hide the label
                    say(out='time="2026-11-30T10:00:00Z" level=warning msg="The cgroupv2 manager is set to systemd"\n', error=1)
                say(out=container["labels"].get("poolmark.run", "") + "\n")
                say(exit=0)
            elif argv[0] == "stop":
                if self.running(argv[-1]):
                    process = self.containers[argv[-1]]["process"]
                    process.terminate()
                    try:
                        process.wait(timeout=int(argv[argv.index("-t") + 1]))
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()
                say(exit=0)
            elif argv[0] == "rm":
                container = self.containers.pop(argv[-1], None)
                if container:
                    container["process"].kill()
                    container["process"].wait()
                say(exit=0)
            else:
                say(out=f"unknown command {argv[0]}\n", error=1)
                say(exit=125)

    def _run(self, argv, request, requests, say):
        """docker run: the options our backend uses; an option it does not know is an error."""
        options = {"--label": [], "--env": [], "--volume": []}
        takes_value = {"--name", "--restart", "--network", "--cap-drop", "--security-opt", "--shm-size", "--log-driver", "--workdir",
                       "--entrypoint", "--user", "--device", "--gpus", "--label", "--env", "--volume"}
        while argv and argv[0].startswith("--"):
            if argv[0] not in takes_value:
                say(out=f"unknown flag: {argv[0]}\n", error=1)
                return say(exit=125)
            if argv[0] in options and isinstance(options[argv[0]], list):
                options[argv[0]].append(argv[1])
            else:
                options[argv[0]] = argv[1]
            argv = argv[2:]
        name = options["--name"]
        if name in self.containers:
            say(out=TAKEN[self.dialect].format(name=name), error=1)
            return say(exit=125)
        if argv[0] not in self.images:
            say(out=NO_IMAGE[self.dialect].format(name=argv[0]), error=1)
            return say(exit=125)
        labels = dict(label.split("=", 1) for label in options["--label"])
        env = {word: request["env"][word] for word in options["--env"] if word in request["env"]}
        process = subprocess.Popen([options.get("--entrypoint", self.images[argv[0]]), *argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={"PATH": os.environ["PATH"], **env}, cwd=options["--workdir"], start_new_session=True)
        self.containers[name] = {"labels": labels, "process": process}

        def listen():
            for line in requests:
                if line == b"TERM\n":
                    process.send_signal(signal.SIGTERM)
        threading.Thread(target=listen, daemon=True).start()
        for line in process.stdout:
            say(out=line)
        say(exit=process.wait() & 0xFF)
