#!/usr/bin/env python3
"""Writes docs/api.md (from the comments of proto/poolmark/v1 and common/rpc/rules.h) and the reference part of
docs/cli.md (from `poolmark help-markdown`), or with --check says whether they are up to date.

  generated_docs.py api [--check]
  generated_docs.py cli BINARY [--check]
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = "<!-- generated: poolmark help-markdown -->\n"
ROLES = {
    "kAdmins": ["admin"],
    "kOperators": ["operator", "admin"],
    "kSubmitters": ["automation", "operator", "admin"],
    "kReaders": ["viewer", "automation", "operator", "admin"],
    "kAgents": ["agent"],
    "kControllers": ["controller"],
    "kAnyone": ["anyone with a token"],
}
HEAD = """# API

Generated from `proto/poolmark/v1` and `common/rpc/rules.h`; do not edit, run `tests/lint/generated_docs.py api`.

Package `poolmark.v1`, gRPC over TLS 1.3 with client certificates. Every non-OK status carries an `ErrorDetail` in its details: code, where, message and
hint of each error. A role that may not call a method gets `PERMISSION_DENIED` before the method runs. Sizes are bytes and times are nanoseconds unless
a name says otherwise. Field numbers are never reused. `grpc.health.v1.Health` is served to every certificate of the cluster; reflection is off.
"""


def rules():
    text = (ROOT / "common/rpc/rules.h").read_text()
    found = {}
    for method, roles, deadline in re.findall(r'\{"(\w+/\w+)",\s*([\w |]+),\s*(\w+)(?:, true)?\}', text):
        names = []
        for word in re.split(r"\s*\|\s*", roles):
            names += ROLES[word]
        found[method] = (", ".join(names), "follows" if deadline == "kFollows" else deadline.removesuffix("s") + " s")
    return found


def comment_of(lines):
    return " ".join(line.strip().removeprefix("//").strip() for line in lines)


def api():
    out = [HEAD]
    table = rules()
    for path in sorted((ROOT / "proto/poolmark/v1").glob("*.proto")):
        out.append(f"\n## {path.name}\n")
        comments, depth, blocks = [], 0, []
        for line in path.read_text().splitlines():
            bare = line.strip()
            if bare.startswith("//"):
                if not re.match(r"// -{3}", bare):
                    comments.append(bare)
                continue
            code, _, trailing = line.partition("//")
            kind = re.match(r"(service|message|enum) (\w+) \{", bare)
            if kind and depth == 0:
                service = kind[1] == "service"
                out.append(f"\n### {kind[1]} {kind[2]}\n")
                if comments:
                    out.append(comment_of(comments) + "\n")
                out.append("| method | request | response | roles | deadline | |\n|---|---|---|---|---|---|" if service
                           else "| field | type | |\n|---|---|---|" if kind[1] == "message" else "| value | |\n|---|---|")
                blocks, comments = [kind[2]], []
                depth = 1
                if bare.endswith("{}") or bare.endswith("}"):
                    depth, out[-1] = 0, "No fields."
                continue
            note = " ".join(filter(None, [comment_of(comments), trailing.strip()])).replace("|", "\\|")
            rpc = re.match(r"rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\)", bare)
            field = re.match(r"((?:optional |repeated )?(?:map<[^>]+>|[\w.]+)) (\w+) = (\d+);", code.strip())
            value = re.match(r"([A-Z]\w+) = (\d+);", code.strip())
            if rpc:
                roles, deadline = table[f"{blocks[0]}/{rpc[1]}"]
                out.append(f"| {rpc[1]} | {rpc[2] or ''}{rpc[3]} | {rpc[4] or ''}{rpc[5]} | {roles} | {deadline} | {note} |")
            elif value:
                out.append(f"| {value[1]} | {note} |")
            elif field:
                prefix = "".join(block + "." for block in blocks[1:])
                out.append(f"| {prefix}{field[2]} | {field[1]} | {note} |".replace("<", "&lt;").replace(">", "&gt;"))
            nested = re.match(r"(message|oneof|enum) (\w+) \{", bare)
            if nested:
                blocks.append(nested[2])
                depth += 1
            elif bare == "}" and depth:
                depth -= 1
                blocks = blocks[:depth]
            comments = []
    return "\n".join(out) + "\n"


def cli(binary):
    page = (ROOT / "docs/cli.md").read_text()
    head = page[: page.index(MARK) + len(MARK)]
    reference = subprocess.run([binary, "help-markdown"], check=True, capture_output=True, text=True).stdout
    return head + reference


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if not words or words[0] not in ("api", "cli"):
        sys.exit(__doc__)
    path = ROOT / "docs" / f"{words[0]}.md"
    text = api() if words[0] == "api" else cli(words[1])
    if "--check" in sys.argv:
        if not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is out of date: run tests/lint/generated_docs.py {' '.join(words)}")
        return
    path.write_text(text)


main()
