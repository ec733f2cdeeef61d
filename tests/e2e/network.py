"""Networks for the scripts in this directory: a forwarder whose target can be changed, and a cluster in which the controller and
each machine have a network namespace of their own, joined by a bridge, so that any of them can be cut off. Needs root."""
import itertools
import os
import socket
import subprocess
import threading

from cluster import Cluster


class Forwarder:
    """Listens on a loopback port and passes each connection on to the target of the moment. Changing it ends all that were there."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._target = None
        self._lock = threading.Lock()  # _target, _open
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def point_to(self, address):
        host, port = address.rsplit(":", 1)
        with self._lock:
            self._target = (host, int(port))
            ended, self._open = self._open, []
        for end in ended:
            self._end(end)

    def close(self):
        self._listener.close()
        with self._lock:
            ended, self._open = self._open, []
        for end in ended:
            self._end(end)

    @staticmethod
    def _end(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        connection.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                target = self._target
            try:
                far = socket.create_connection(target, timeout=5)
            except (OSError, TypeError):
                self._end(near)
                continue
            far.settimeout(None)
            with self._lock:
                self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        self._end(source)
        self._end(sink)


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise AssertionError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def may_make_namespaces():
    name = f"pm{os.getpid()}t"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        return True
    except (AssertionError, OSError):
        return False
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=30)


class NetworkCluster(Cluster):
    """10.211.0.1 is the controller; machines follow. `None` stands for the controller."""
    _numbers = itertools.count(1)

    def start(self):
        self._prefix = f"pm{os.getpid()}x{next(self._numbers)}"
        self._order = [None, *self.machines]
        switch = self._prefix + "s"
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for number, node in enumerate(self._order, 1):
            space = self._space(node)
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{number}", "netns", switch)
            ip("-n", switch, "link", "set", f"p{number}", "master", "br0", "up")
            ip("-n", space, "addr", "add", f"10.211.0.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
        return super().start()

    def __exit__(self, *what):
        result = super().__exit__(*what)
        for space in [self._prefix + "s", *(self._space(node) for node in self._order)]:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, timeout=30)
        return result

    def _space(self, node):
        return self._prefix + str(self._order.index(node))

    def address(self, machine):
        return f"10.211.0.{self._order.index(machine) + 1}"

    def inside(self, machine):
        return ["ip", "netns", "exec", self._space(machine)]

    def cut(self, machine):
        ip("-n", self._prefix + "s", "link", "set", f"p{self._order.index(machine) + 1}", "down")

    def heal(self, machine):
        ip("-n", self._prefix + "s", "link", "set", f"p{self._order.index(machine) + 1}", "up")
