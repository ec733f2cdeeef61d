#!/usr/bin/env python3
"""Checks that dependencies point one way: cli, controller, agent -> common; controller and agent share only proto
and common; stats, workload, model, prom, spec and report know neither protobuf nor gRPC; guard and sim link no gRPC.
Prints every include that breaks a rule and exits 1 if there is one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]', re.M)

# area prefix -> include prefixes it must not use
FORBIDDEN = {
    "common/": ["controller/", "agent/", "cli/"],
    "controller/": ["agent/", "cli/"],
    "agent/": ["controller/", "cli/"],
    "cli/": ["controller/", "agent/"],
}
NO_PROTO = ["common/stats/", "common/workload/", "common/model/", "common/prom/", "common/spec/", "common/report/", "common/base/",
            "common/load/", "common/http/", "common/results/", "common/quality/", "agent/guard/", "agent/sim/"]
PROTO = ("poolmark/v1/", "grpc", "google/protobuf")
# Heavy headers and where they may stand.
HEAVY = {"CLI/": ["cli/", "agent/main.cpp", "agent/guard/main.cpp", "agent/sim/", "controller/main.cpp"],
         "yaml-cpp/": ["common/spec/", "common/prom/", "agent/", "common/stats/", "common/rpc/", "cli/", "controller/"],
         "sqlite3.h": ["controller/jobs/", "controller/ca/"]}


def main() -> int:
    problems = []
    for path in sorted(ROOT.glob("**/*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("common/", "controller/", "agent/", "cli/")):
            continue
        for include in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
            for area, bad in FORBIDDEN.items():
                if name.startswith(area) and include.startswith(tuple(bad)):
                    problems.append(f"{name}: includes {include}; {area} must not know it")
            if name.startswith(tuple(NO_PROTO)) and include.startswith(PROTO):
                problems.append(f"{name}: includes {include}; this area knows neither protobuf nor gRPC")
            for heavy, allowed in HEAVY.items():
                if include.startswith(heavy) and not name.startswith(tuple(allowed)):
                    problems.append(f"{name}: includes {include}, which belongs behind one small header")
    print("\n".join(problems) if problems else "dependencies point one way")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
