"""Files of a results directory against docs/schemas: every key described, every required one there, types as they say."""
import json
import pathlib
import subprocess

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "docs/schemas"
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
FILES = {"job.json": "job", "plan.json": "plan", "preflight.json": "preflight", "manifest.json": "manifest", "summary.json": "summary", "inputs/inputs.json": "inputs",
         "cycles/*/verify.json": "verify", "cycles/*/teardown.json": "teardown", "points/*/*/*/repeat.json": "repeat", "points/*/*/*/load.json": "load",
         "events.jsonl": "event", "points/*/*/*/timeline.jsonl": "timeline", "points/*/*/*/requests.jsonl.zst": "request", "points/*/*/*/samples/*.jsonl.zst": "sample"}


def is_kind(value, kind):
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def problem(value, schema, root, where):
    """The first thing that does not fit, or None."""
    if "$ref" in schema:
        return problem(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, where)
    if "anyOf" in schema:
        found = [problem(value, one, root, where) for one in schema["anyOf"]]
        return None if None in found else " or ".join(found)
    if "const" in schema and value != schema["const"]:
        return f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_kind(value, kind) for kind in kinds):
            return f"{where}: {value!r:.80} is no {' or '.join(kinds)}"
    if "minimum" in schema and value < schema["minimum"]:
        return f"{where}: {value} is below {schema['minimum']}"
    if isinstance(value, dict) and "properties" in schema:
        missing = [key for key in schema.get("required", []) if key not in value]
        if missing:
            return f"{where} lacks {missing}"
        for key, child in value.items():
            if key not in schema["properties"]:
                return f"{where}.{key} is not in the schema"
            found = problem(child, schema["properties"][key], root, f"{where}.{key}")
            if found:
                return found
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for key, child in value.items():
            found = problem(child, schema["additionalProperties"], root, f"{where}.{key}")
            if found:
                return found
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return f"{where} has {len(value)} items"
        for i, child in enumerate(value):
            of = schema["prefixItems"][i] if i < len(schema.get("prefixItems", [])) else schema.get("items")
            found = problem(child, of, root, f"{where}[{i}]") if of else None
            if found:
                return found
    return None


def values(path):
    if path.name.endswith(".zst"):
        text = subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True, text=True).stdout
    else:
        text = path.read_text()
    if ".jsonl" not in path.name:
        return [json.loads(text)]
    return [json.loads(line) for line in text.splitlines()]


def check_directory(directory):
    """Names of the schemas that files of the directory were held against; asserts that each fits."""
    used = set()
    for pattern, name in FILES.items():
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
        for path in sorted(pathlib.Path(directory).glob(pattern)):
            for number, value in enumerate(values(path), 1):
                found = problem(value, schema, schema, f"{path.relative_to(directory)}:{number}")
                assert found is None, found
            used.add(name)
    return used
