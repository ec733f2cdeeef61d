#!/usr/bin/env python3
"""Checks the coroutine rule of docs/architecture.md: coroutines stand in common/http alone, and what is awaited is a named
object. g++ 12 destroys temporaries and captures of an awaited expression twice. There are none today; the rule is tried on
its own examples first, so that it cannot rot."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
KEYWORD = re.compile(r"\bco_(await|yield|return)\b")
# `co_await name`, `co_await this->name`, `co_await std::move(name)`: nothing that makes an object.
NAMED = re.compile(r"\bco_await\s+(?:std::move\s*\(\s*)?[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)*\s*\)?\s*[;,)]")

EXAMPLES = [  # path, source, is it right?
    ("common/http/a.cpp", "int F() { co_await timer; co_return 1; }", True),
    ("common/http/a.cpp", "x = (co_await this->reply);", True),
    ("common/http/a.cpp", "co_await std::move(wait);", True),
    ("common/http/a.cpp", "co_await socket.async_read(buffer);", False),
    ("common/http/a.cpp", "co_await [&] { return 1; }();", False),
    ("common/http/a.cpp", "co_await Sleep{std::chrono::seconds(1)};", False),
    ("common/load/a.cpp", "co_await timer;", False),
    ("agent/a.cpp", "// co_await f(x) is not used here\n", True),
    ("agent/a.cpp", 'Say("co_await f(x)");', True),
]


def problems_of(name, text):
    text = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    for found in KEYWORD.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if not name.startswith("common/http/"):
            yield f"{name}:{line}: co_{found.group(1)}: coroutines stand in common/http alone; block in a std::jthread"
        elif found.group(1) == "await" and not NAMED.match(text, found.start()):
            yield f"{name}:{line}: co_await of something without a name: make it an object first, g++ 12 destroys temporaries twice"


def main() -> int:
    for name, text, right in EXAMPLES:
        if (not list(problems_of(name, text))) != right:
            print(f"the rule itself is broken: {text!r} in {name}")
            return 1
    problems, coroutines = [], 0
    for area in ("common", "controller", "agent", "cli", "tests"):
        for path in sorted((ROOT / area).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            coroutines += len(KEYWORD.findall(COMMENT.sub("", text)))
            problems += problems_of(path.relative_to(ROOT).as_posix(), text)
    print("\n".join(problems) if problems else f"coroutines: {coroutines} keywords, all as the rule says")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
