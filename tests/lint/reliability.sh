#!/bin/sh
# docs/reliability.md names tests: each file and each quoted name in it must exist.
exec python3 - "$(dirname "$0")/../.." <<'PYTHON'
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
text = (root / "docs/reliability.md").read_text(encoding="utf-8")
files = {path.relative_to(root).as_posix(): path for path in (root / "tests").rglob("*") if path.is_file() and "data" not in path.parts}
names = {path.rsplit("/", 1)[-1] for path in files}
titles = " ".join(" ".join(re.findall(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', path.read_text(encoding="utf-8")))
                  for name, path in files.items() if name.endswith(".cpp"))
wrong = []
for word in re.findall(r"`([^`]+)`", text):
    if word.startswith("tests/") and word.rstrip("/") not in files and not (root / word).is_dir() and word != "tests/e2e/NAME":
        wrong.append(f"{word}: no such file")
    if re.fullmatch(r"\w+_test\.cpp|test_\w+", word) and word not in names:
        wrong.append(f"{word}: no such test")
for quoted in re.findall(r'"([^"]+)"', text):
    pieces = [piece.strip() for piece in quoted.split("…") if piece.strip()]
    if " " in quoted.strip() and not all(piece in titles for piece in pieces) and quoted not in ("agent, for good",):
        wrong.append(f'"{quoted}": no test has this name')
print("\n".join(wrong) or "docs/reliability.md names tests that exist")
sys.exit(1 if wrong else 0)
PYTHON
