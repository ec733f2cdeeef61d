#!/usr/bin/env python3
"""Writes docs/requirements.md from the tests, or with --check says whether it is up to date.

A test that proves a requirement carries its id: Catch2 tags ([C19]), or names such as test_C19_... in scripts.
[live] and [recorded] say how it was proven; without either a rule was tested on its own values ("rule").
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASE = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+),\s*"((?:\[[^\]"]+\])+)"', re.S)
ID = re.compile(r"^[A-L]\d{1,2}$")
# Groups of requirement ids and how many each has.
GROUPS = [("A", 9, "Strategies and stacks"), ("B", 6, "Where prompt tokens come from"), ("C", 28, "The seven steps"),
          ("D", 5, "Workload shapes"), ("E", 13, "Measures"), ("F", 24, "Sources and exporters"), ("G", 8, "Switches"),
          ("H", 12, "Windows, stability, warnings"), ("I", 9, "Validity and publication"), ("J", 6, "Network, vendors, security"),
          ("K", 34, "Answer quality"), ("L", 3, "Orchestration")]
SCRIPT = re.compile(r"\btest_((?:[A-L]\d{1,2}_)+)(\w*)")


def collect():
    found = collections.defaultdict(list)
    for path in sorted((ROOT / "tests").glob("**/*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".cpp":
            for title, tags in CASE.findall(path.read_text(encoding="utf-8")):
                words = re.findall(r"\[([^\]]+)\]", tags)
                how = "live" if "live" in words else "recorded" if "recorded" in words else "rule"
                title = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', title)).replace('\\"', '"')
                for word in words:
                    if ID.match(word):
                        found[word].append((how, name, title))
        elif path.suffix in (".py", ".sh", ""):
            if not path.is_file() or path.name == "requirements.py" or "data" in path.parts or "corpus" in path.parts:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            for ids, rest in SCRIPT.findall(text):
                for word in ids.strip("_").split("_"):
                    found[word].append(("live", name, rest.replace("_", " ")))
    return found


def render():
    found = collect()
    rows, count = [], collections.Counter()
    for letter, last, title in GROUPS:
        rows += ["", f"## {letter}: {title}", "", "| id | proven | tests |", "|---|---|---|"]
        for number in range(1, last + 1):
            tests = found.get(f"{letter}{number}", [])
            ways = {how for how, _, _ in tests}
            best = next((way for way in ("live", "recorded", "rule") if way in ways), "not yet")
            count[best] += 1
            where = "<br>".join(sorted({f"{how}: `{name}` {title}" for how, name, title in tests})) or "-"
            rows.append(f"| {letter}{number} | {best} | {where} |")
    total = sum(count.values())
    head = ["# Requirements and what proves them", "",
            "Made by `tests/lint/requirements.py` from the tests; do not edit. **live**: real components, where the tests run;",
            "**recorded**: real recorded output or a fixture tree; **rule**: a rule tested on its own values; **not yet**: no test names it.", "",
            f"{total} requirements: {count['live']} live, {count['recorded']} recorded, {count['rule']} rule, {count['not yet']} not yet."]
    return "\n".join(head + rows) + "\n", count


def main() -> int:
    text, count = render()
    target = ROOT / "docs/requirements.md"
    if "--check" in sys.argv:
        same = target.exists() and target.read_text(encoding="utf-8") == text
        print("requirements: " + ", ".join(f"{n} {how}" for how, n in count.items()))
        if not same:
            print("docs/requirements.md is out of date: run tests/lint/requirements.py")
        return 0 if same else 1
    target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
