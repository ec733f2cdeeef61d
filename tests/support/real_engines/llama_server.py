#!/usr/bin/env python3
"""llama.cpp's server from the xllamacpp wheel with the flags of `llama-server` that our stack file uses."""
import argparse
import signal
import threading

import xllamacpp


def main():
    parser = argparse.ArgumentParser(prog="llama-server")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--model", required=False)
    parser.add_argument("--alias", default="model")
    parser.add_argument("--ctx-size", type=int, default=8192)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--slots", action="store_true")
    parser.add_argument("--slot-save-path", default="")
    args = parser.parse_args()
    if args.version:
        import importlib.metadata
        print("llama.cpp (xllamacpp)", importlib.metadata.version("xllamacpp"))
        return
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.hostnames = [args.host]
    params.port = args.port
    params.endpoint_metrics = args.metrics
    params.endpoint_slots = args.slots
    if args.slot_save_path:
        params.slot_save_path = args.slot_save_path
    params.n_ctx = args.ctx_size
    params.n_parallel = args.parallel
    params.model_alias = {args.alias}
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.warmup = False
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    server = xllamacpp.Server(params)
    print(f"listening on http://{args.host}:{args.port}", flush=True)
    stop.wait()
    del server


if __name__ == "__main__":
    main()
