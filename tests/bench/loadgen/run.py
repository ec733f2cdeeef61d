#!/usr/bin/env python3
"""The load generator's bench of record: `poolmark load` beside a bare C client and, where installed, its peers,
each checked against the server's own log.

  tests/bench/loadgen/run.py --program build/release/bin/poolmark [--pairs 5] [--markdown docs/performance-loadgen.md]

Mock server and bare client are built from the directory --shared (bench/loadgen/mocksse.c, refclient.c). Pairs are
interleaved, in turning order, and medians of the pairs' ratios and differences are given, so that what else the
machine does hits both alike. Peers: --vllm-python names a Python with vLLM's benchmark client; others are quoted
from measured results in --shared (results.jsonl), and marked so.
"""
import argparse, csv, json, os, random, shutil, signal, socket, statistics as st, subprocess, sys, tempfile, time

def quantile(values, share):
    values = sorted(values)
    rank = (len(values) - 1) * share
    low = int(rank)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (rank - low)

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

class Server:
    """One mock server with its log."""
    def __init__(self, bench, ttft_ms, itl_ms, tokens):
        self.port = free_port()
        self.log = os.path.join(bench.work, f"truth-{self.port}.csv")
        self.process = subprocess.Popen(
            [bench.mock, "--port", str(self.port), "--ttft-us", str(ttft_ms * 1000), "--itl-us", str(itl_ms * 1000), "--tokens", str(tokens), "--log", self.log],
            stderr=subprocess.PIPE, text=True, preexec_fn=lambda: renice(-15))
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                time.sleep(0.01)
    def finish(self):
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=30)[1]
        peak = int(said.split("peak_active=")[1].split()[0]) if "peak_active=" in said else 0
        with open(self.log) as f:
            rows = [row for row in csv.DictReader(line for line in f if not line.startswith("#"))]
        os.remove(self.log)
        for row in rows:
            for key in ("arrival_ns", "first_ns", "last_ns", "tokens"):
                row[key] = int(row[key])
        return rows, peak

def renice(by):
    try:
        os.nice(by)
    except OSError:
        pass

def run(argv):
    """Runs a client; its CPU seconds, peak memory, start (CLOCK_MONOTONIC ns) and output."""
    started = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    out = tempfile.TemporaryFile()
    process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, preexec_fn=lambda: renice(-6))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    out.seek(0)
    text = out.read().decode(errors="replace")
    if process.returncode != 0:
        sys.exit(f"{' '.join(argv)} ended with {process.returncode}:\n{text[-2000:]}")
    return dict(cpu=usage.ru_utime + usage.ru_stime, started=started, text=text)

class Bench:
    def __init__(self, options):
        self.options = options
        self.work = tempfile.mkdtemp(prefix="loadgen-bench-")
        source = os.path.join(options.shared, "bench", "loadgen")
        self.mock, self.bare, self.front = (os.path.join(self.work, name) for name in ("mocksse", "refclient", "front"))
        for target, name in ((self.mock, "mocksse.c"), (self.bare, "refclient.c")):
            subprocess.run(["cc", "-O2", "-o", target, os.path.join(source, name), "-lm"], check=True)
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        subprocess.run(["c++", "-O2", "-std=c++20", "-I", root, "-o", self.front, os.path.join(root, "tests/bench/loadgen/front_main.cpp"), os.path.join(root, "tests/support/front.cpp"),
                        "-lssl", "-lcrypto", "-lpthread"], check=True)
        self.rows = []

    # --- clients: each returns what it says about itself, by the server's request id ---
    def poolmark(self, port, level, n, tokens, url=None, more=()):
        out = os.path.join(self.work, "out")
        shutil.rmtree(out, ignore_errors=True)
        done = run([self.options.program, "load", "--url", url or f"http://127.0.0.1:{port}", "--model", "mock", *level, "-n", str(n), "--output-tokens", str(tokens),
                    "--input-tokens", "100", "--loops", str(self.options.loops), "--out", out, "--progress", "none", "-o", "json", *more])
        done["summary"] = json.loads(done["text"])
        # wait4 also counts this script's own memory, which the child had before its exec.
        done["rss"] = done["summary"]["client"]["max_rss_bytes"]
        requests = {}
        text = subprocess.run(["zstdcat", os.path.join(out, "requests.jsonl.zst")], capture_output=True, check=True).stdout
        for line in text.splitlines():
            r = json.loads(line)
            events = r["events"]
            span = r["last_output"] - r["first_output"] if r["first_output"] else None
            requests[f"poolmark-{r['session']}-{r['turn']}"] = dict(
                ttft=(r["first_output"] - r["sent"]) / 1e6, kernel=(r["kernel_first_output"] - r["sent"]) / 1e6, itl=span / 1e6 / (len(events) - 1) if len(events) > 1 else None)
        done["requests"] = requests
        return done

    def refclient(self, port, level, n, tokens):
        path = os.path.join(self.work, "bare.csv")
        done = run([self.bare, "-p", str(port), *level, "-n", str(n), "-o", str(tokens), "-b", "512", "-w", path])
        with open(path) as f:
            done["requests"] = {f"ref-{r['id']}": dict(ttft=(int(r["first_ns"]) - int(r["send_ns"])) / 1e6, kernel=None,
                                                       itl=(int(r["last_ns"]) - int(r["first_ns"])) / 1e6 / (int(r["events"]) - 1) if int(r["events"]) > 1 else None)
                                for r in csv.DictReader(f)}
        return done

    def measure(self, who, ttft_ms, itl_ms, tokens, level, n, rate=None, more=()):
        server = Server(self, ttft_ms, itl_ms, tokens)
        done = self.poolmark(server.port, level, n, tokens, more=more) if who == "poolmark" else self.refclient(server.port, level, n, tokens)
        rows, peak = server.finish()
        if len(rows) != n:
            sys.exit(f"{who}: {len(rows)} requests at the server, {n} asked")
        span = (max(r["last_ns"] for r in rows) - min(r["arrival_ns"] for r in rows)) / 1e9
        result = dict(requests_s=n / span, events_s=sum(r["tokens"] for r in rows) / span, cpu_ms=done["cpu"] * 1000 / n, rss=done.get("rss"), peak=peak,
                      start_s=(min(r["arrival_ns"] for r in rows) - done["started"]) / 1e9, failed=sum(r["status"] != "200" for r in rows))
        joined = [(done["requests"][r["xid"]], r) for r in rows if r["xid"] in done["requests"]]
        if len(joined) != n:
            sys.exit(f"{who}: {len(joined)} of {n} requests could be joined with the server's log")
        for name in ("ttft", "kernel"):
            extra = [c[name] - (r["first_ns"] - r["arrival_ns"]) / 1e6 for c, r in joined if c[name] is not None]
            if extra:
                result[name] = dict(mean=st.mean(extra), p99=quantile(extra, 0.99))
        gaps = [c["itl"] - (r["last_ns"] - r["first_ns"]) / 1e6 / (r["tokens"] - 1) for c, r in joined if c["itl"] is not None and r["tokens"] > 1]
        result["itl"] = st.mean(gaps) if gaps else None
        if rate:
            arrivals = sorted(r["arrival_ns"] for r in rows)
            offsets = [(a - arrivals[0]) / 1e6 - i * 1000 / rate for i, a in enumerate(arrivals)]
            middle = st.median(offsets)
            errors = [abs(o - middle) for o in offsets]
            result["schedule"] = dict(p50=quantile(errors, 0.5), p99=quantile(errors, 0.99), rate=(n - 1) / ((arrivals[-1] - arrivals[0]) / 1e9))
        return result

    def pairs(self, **case):
        both = {"refclient": [], "poolmark": []}
        for pair in range(self.options.pairs):
            order = ["refclient", "poolmark"] if pair % 2 == 0 else ["poolmark", "refclient"]
            for who in order:
                both[who].append(self.measure(who, **case))
        return both

    def row(self, figure, bar, value, good, detail):
        self.rows.append(dict(figure=figure, bar=bar, value=value, good=good, detail=detail))
        print(f"{'ok ' if good else 'NOT'} {figure}: {value} (bar: {bar}); {detail}", flush=True)

def median(both, who, get):
    return st.median(get(r) for r in both[who])

def ratio(both, get):
    return st.median(get(p) / get(r) for p, r in zip(both["poolmark"], both["refclient"]))

def saturated(bench):
    n = 10000 if bench.options.quick else 30000
    both = bench.pairs(ttft_ms=0, itl_ms=0, tokens=64, level=["-c", "64"], n=n)
    r = ratio(both, lambda x: x["requests_s"])
    bench.row("requests/s, c = 64, no server delay", ">= 0.70 of the bare client", f"{r:.2f}", r >= 0.70,
              f"{median(both, 'poolmark', lambda x: x['requests_s']):.0f} requests/s, {median(both, 'poolmark', lambda x: x['events_s']):.0f} events/s; bare client {median(both, 'refclient', lambda x: x['requests_s']):.0f}")
    c = ratio(both, lambda x: x["cpu_ms"])
    bench.row("CPU a request, same run", "<= 3 x the bare client", f"{c:.2f}", c <= 3,
              f"{median(both, 'poolmark', lambda x: x['cpu_ms']):.4f} ms; bare client {median(both, 'refclient', lambda x: x['cpu_ms']):.4f} ms")
    return both

def inflation(bench, c, n, itl_ms, tokens):
    both = bench.pairs(ttft_ms=100, itl_ms=itl_ms, tokens=tokens, level=["-c", str(c)], n=n)
    for which in ("mean", "p99"):
        ours = st.median(r["ttft"][which] for r in both["poolmark"])
        bare = st.median(r["ttft"][which] for r in both["refclient"])
        kernel = st.median(r["kernel"][which] for r in both["poolmark"])
        bar = max(1.2 * bare, 0.3)
        bench.row(f"TTFT inflation, c = {c}, {which}", "<= 1.2 x the bare client or 0.3 ms", f"{ours:.3f} ms", ours <= bar, f"bare client {bare:.3f} ms")
        bench.row(f"TTFT inflation by kernel stamps, c = {c}, {which}", "< the bare client", f"{kernel:.3f} ms", kernel < bare, f"bare client {bare:.3f} ms")
    itl = st.median(r["itl"] for r in both["poolmark"])
    bench.row(f"gap inflation, c = {c}, mean", "within 0.05 ms", f"{itl:+.4f} ms", abs(itl) <= 0.05, f"bare client {st.median(r['itl'] for r in both['refclient']):+.4f} ms")
    peak = min(r["peak"] for r in both["poolmark"])
    bench.row(f"concurrency reached, c = {c}", f"{c}", f"{peak}", peak == c, f"bare client {min(r['peak'] for r in both['refclient'])}")
    return both

def open_loop(bench, rate, n):
    both = {"refclient": [], "poolmark": []}
    for pair in range(bench.options.pairs):
        for who in (["refclient", "poolmark"] if pair % 2 == 0 else ["poolmark", "refclient"]):
            level = ["-r", str(rate)] if who == "poolmark" else ["-r", str(rate), "-c", "512"]
            both[who].append(bench.measure(who, 50, 5, 16, level, n, rate=rate))
    ours = st.median(r["schedule"]["p99"] for r in both["poolmark"])
    bare = st.median(r["schedule"]["p99"] for r in both["refclient"])
    bench.row(f"schedule error at {rate}/s, P99", "<= 1.2 x the bare client or 1 ms", f"{ours:.3f} ms", ours <= max(1.2 * bare, 1.0), f"bare client {bare:.3f} ms")
    real = st.median(r["schedule"]["rate"] for r in both["poolmark"])
    bench.row(f"rate at {rate}/s", "within 0.1 %", f"{real:.3f}/s", abs(real / rate - 1) <= 0.001, f"bare client {st.median(r['schedule']['rate'] for r in both['refclient']):.3f}/s")

def scale(bench):
    result = bench.measure("poolmark", 3000, 250, 16, ["-c", "10000"], 10000)
    bench.row("10 000 streams on one process", "all held, none failed, < 1.5 GB", f"{result['peak']} held, {result['failed']} failed, {result['rss'] / 2**20:.0f} MiB",
              result["peak"] == 10000 and result["failed"] == 0 and result["rss"] < 1.5e9, f"TTFT inflation mean {result['ttft']['mean']:.1f} ms")
    starts = [bench.measure("poolmark", 1, 1, 4, ["-c", "1"], 1)["start_s"] for _ in range(bench.options.pairs)]
    bench.row("start-up, exec to first request at the server", "< 0.2 s", f"{st.median(starts):.3f} s", st.median(starts) < 0.2, f"{len(starts)} starts")
    memory = bench.measure("poolmark", 20, 5, 64, ["-c", "256"], 5000)["rss"]
    bench.row("memory at c = 256, records written", "< 50 MB", f"{memory / 1e6:.1f} MB", memory < 50e6, "5 000 requests of 64 tokens")

def tls(bench):
    ratios = []
    for pair in range(bench.options.pairs):
        reached = {}
        for secure in ([True, False] if pair % 2 else [False, True]):
            server = Server(bench, 0, 0, 64)
            port = free_port()
            ca = os.path.join(bench.work, "ca.pem")
            front = subprocess.Popen([bench.front, str(server.port), str(port)] + ([ca] if secure else []), stdout=subprocess.PIPE, text=True)
            front.stdout.readline()
            n = 10000
            bench.poolmark(port, ["-c", "64"], n, 64, url=f"http{'s' if secure else ''}://127.0.0.1:{port}", more=["--ca-file", ca] if secure else [])
            rows, _ = server.finish()
            front.kill()
            front.wait()
            reached[secure] = n / ((max(r["last_ns"] for r in rows) - min(r["arrival_ns"] for r in rows)) / 1e9)
        ratios.append(reached[True] / reached[False])
    r = st.median(ratios)
    bench.row("requests/s through a TLS front", ">= 0.60 of ours through the same front without TLS", f"{r:.2f}", r >= 0.60, f"{reached[True]:.0f} against {reached[False]:.0f} requests/s")

def peers(bench, both):
    """Quoted from measured runs of the same mock server; the best of each figure."""
    path = os.path.join(bench.options.shared, "bench", "loadgen", "results", "results.jsonl")
    if not os.path.exists(path):
        return
    best = {}
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            name = r["name"].removeprefix("q-")
            if name.startswith("ref") or not name.endswith("max64") or not r.get("req_s"):
                continue
            who = name.split("-")[0]
            best[who] = max(best.get(who, (0, 0)), (r["req_s"], r["cpu_s_per_1k"]))
    fastest = max(best.items(), key=lambda item: item[1][0])
    ours = median(both, "poolmark", lambda x: x["requests_s"])
    cpu = median(both, "poolmark", lambda x: x["cpu_ms"])
    leanest = min(best.items(), key=lambda item: item[1][1])
    bench.row("requests/s against the best peer (quoted)", ">= 10 x", f"{ours / fastest[1][0]:.0f} x", ours >= 10 * fastest[1][0], f"{fastest[0]} {fastest[1][0]:.0f} requests/s on such a machine")
    bench.row("CPU a request against the best peer (quoted)", "<= 1/10", f"1/{leanest[1][1] / cpu:.0f}", cpu <= leanest[1][1] / 10, f"{leanest[0]} {leanest[1][1]:.2f} ms")

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--program", default="build/release/bin/poolmark")
    parser.add_argument("--shared", default=os.path.join(here, "..", "..", "..", "..", "shared"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--loops", type=int, default=1, help="event loops of ours; the bare client has one thread, and mock server and client share the machine")
    parser.add_argument("--quick", action="store_true", help="fewer requests, for a look")
    parser.add_argument("--only", default="", help="saturated, inflation, open, scale, tls; with commas")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    bench = Bench(options)
    only = options.only.split(",") if options.only else ["saturated", "inflation", "open", "scale", "tls"]
    try:
        if "saturated" in only:
            peers(bench, saturated(bench))
        if "inflation" in only:
            for c, n, itl, tokens in ((1, 20, 10, 16), (64, 512, 10, 64), (256, 1024, 10, 64), (1024, 4096, 50, 16)):
                inflation(bench, c, n, itl, tokens)
        if "open" in only:
            open_loop(bench, 100, 500)
            open_loop(bench, 1000, 5000)
        if "scale" in only:
            scale(bench)
        if "tls" in only:
            tls(bench)
    finally:
        shutil.rmtree(bench.work, ignore_errors=True)
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "?")
    machine = f"{os.cpu_count()} cores ({cpu}), load {os.getloadavg()[0]:.1f} at the end, {options.loops} event loop{'s' if options.loops > 1 else ''}, {options.pairs} interleaved pairs, medians"
    if options.json:
        with open(options.json, "w") as f:
            json.dump(dict(machine=machine, rows=bench.rows), f, indent=1)
    if options.markdown:
        with open(options.markdown, "w") as f:
            f.write(f"Measured by `tests/bench/loadgen/run.py` on {machine}.\n\n| figure | bar | reached | | beside it |\n|---|---|---|---|---|\n")
            for r in bench.rows:
                f.write(f"| {r['figure']} | {r['bar']} | {r['value']} | {'yes' if r['good'] else '**no**'} | {r['detail']} |\n")
    missed = [r["figure"] for r in bench.rows if not r["good"]]
    print(f"{len(bench.rows) - len(missed)} of {len(bench.rows)} bars reached" + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0

sys.exit(main())
