"""Simulated arms and the quality commands, for the end-to-end tests of the answer-quality benchmark."""
import http.server
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("POOLMARK_BIN") or os.path.join(ROOT, "build", "release", "bin")
POOLMARK = os.path.join(BIN, "poolmark")
SIM = os.path.join(BIN, "poolmark-sim")
CHUNK = 16


def need(*programs):
    """Skips the whole test (exit 77) where a program is missing."""
    for program in programs:
        if not (os.path.exists(program) or shutil.which(program)):
            print(f"skipped: {program} is missing")
            sys.exit(77)


def write_dataset(path, questions):
    """Towns and rivers: every question has its own passage, one of another question, and a note."""
    records = []
    for i in range(questions):
        other = (i + 7) % questions
        records.append({
            "_id": f"s{i}",
            "question": f"Which river passes Town{i}?",
            "answer": f"River{i}",
            "context": [
                [f"Town{i}", [f"Town{i} lies in the hills of the north.", f" The River{i} passes it on its way to the sea."]],
                [f"Town{other}", [f"Town{other} lies in the hills of the north.", f" The River{other} passes it on its way to the sea."]],
                ["Notes", ["Travellers like the bread of every region.", " The museums hold many old paintings."]],
            ],
            "supporting_facts": [[f"Town{i}", 1]] if i % 3 else [],
        })
    with open(path, "w", encoding="utf-8") as out:
        json.dump(records, out)


class Engine:
    """One poolmark-sim engine; ended when the block ends."""

    def __init__(self, *arguments, step="0ms"):
        command = [SIM, "engine", "--model", "m", "--decode-step", step, "--decode-per-sequence", "0ms", "--prefill-rate", "1000000000"]
        self.process = subprocess.Popen(command + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        match = re.match(r"listening (\S+)", line)
        if not match:
            raise RuntimeError(f"the engine did not start: {line!r}")
        self.url = "http://" + match.group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def get(self, path):
        return urllib.request.urlopen(self.url + path, timeout=10).read().decode()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, data=body.encode(), method="POST")
        return urllib.request.urlopen(request, timeout=10).read().decode()


class MetricsPage:
    """A metrics page of the test's own: `page(reads)` is its text, given how often it was read before."""

    def __init__(self, page):
        reads = itertools.count()

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                body = page(next(reads)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/metrics"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def blend_page(requested, blended):
    return "".join(f"# TYPE lmcache_blend_lookup_{name}_tokens_total counter\nlmcache_blend_lookup_{name}_tokens_total {value}\n"
                   for name, value in (("requested", requested), ("non_prefix_hit", blended)))


def quality(*arguments, expect=0, timeout=300):
    """Runs a quality command; its output, after checking the exit code."""
    done = subprocess.run([POOLMARK, "quality", *arguments], capture_output=True, text=True, timeout=timeout)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"poolmark quality {' '.join(arguments)}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def run_arms(out, dataset, *, reference="", control="", candidate="", metrics="", scenario="independent", extra=(), expect=0):
    arguments = ["run", "--out", out, "--model", "m", "--dataset", dataset, "--limit", "0", "--scenario", scenario,
                 "--chunk-size", str(CHUNK), "--max-output-tokens", "200", "--settle", "50ms", *extra]
    for flag, url in (("--reference-url", reference), ("--control-url", control), ("--candidate-url", candidate),
                      ("--capture-blend-metrics", metrics)):
        if url:
            arguments += [flag, url]
    return quality(*arguments, expect=expect)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def judge_templates(work):
    """The published templates, fetched once; nothing without a network."""
    directory = os.environ.get("POOLMARK_JUDGE_TEMPLATES") or f"{work}/templates"
    if os.path.exists(f"{directory}/template_accuracy2.txt"):
        return directory
    try:
        done = subprocess.run([f"{ROOT}/deploy/quality/fetch-judge-templates", directory], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return None
    return directory if done.returncode == 0 else None


def workspace():
    return tempfile.TemporaryDirectory(prefix="poolmark-quality-")
