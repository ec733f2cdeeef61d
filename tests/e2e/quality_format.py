"""A results directory against the specified format, key by key: names, order, types, sentinels, conditional keys, digests,
and what one file must say because another does. Written from the specification, with nothing of the product in it."""
import hashlib
import json
import math
import os
import re

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d")
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9a-f]+)?|unknown")
COUNTERS = ("requested_tokens", "prefix_hit_tokens", "non_prefix_hit_tokens", "segmented_prefix_hit_tokens", "stale_chunks",
            "fingerprints_registered")
TAGS = ("none", "candidate_higher", "empty", "abstention", "wrong_value", "wording")


def text(value):
    return isinstance(value, str)


def whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def real(value):
    """A number that is written as a float."""
    return isinstance(value, float) and math.isfinite(value)


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def boolean(value):
    return isinstance(value, bool)


def texts(value):
    return isinstance(value, list) and all(map(text, value))


def hexes(length):
    return lambda value: text(value) and re.fullmatch(f"[0-9a-f]{{{length}}}", value)


def time_(value):
    return text(value) and TIME.fullmatch(value)


def version(value):
    return text(value) and VERSION.fullmatch(value)


def one_of(*values):
    return lambda value: value in values


def or_null(check):
    return lambda value: value is None or check(value)


def keys(where, value, fields):
    """Exactly these keys in this order, each as its check says."""
    assert isinstance(value, dict), (where, value)
    assert list(value) == [key for key, _ in fields], (where, list(value))
    for key, check in fields:
        assert check(value[key]), (where, key, value[key])
    return True


def part(fields):
    return lambda value: keys("", value, fields)


def dumps(value):
    return json.dumps(value, sort_keys=True)


def digest(data, length=64):
    return hashlib.sha256(data.encode()).hexdigest()[:length]


def strict(path):
    def refuse(word):
        raise ValueError(f"{path}: {word}")
    with open(path, encoding="utf-8") as file:
        if path.endswith(".jsonl"):
            content = file.read()
            assert content.endswith("\n"), path
            return [json.loads(line, parse_constant=refuse) for line in content[:-1].split("\n")]
        return json.load(file, parse_constant=refuse)


MESSAGES = [("role", one_of("user")), ("content", text)]
COUNTER_FIELDS = [(name, real) for name in COUNTERS]


def messages(value):
    return isinstance(value, list) and len(value) == 1 and keys("messages", value[0], MESSAGES)


def settings_fields(scenario):
    fields = [("model", text), ("dataset", text), ("task", one_of("qa")), ("scenario", one_of(scenario)), ("num_samples", whole),
              ("chunk_size", whole), ("max_output_tokens", whole),
              ("template_kwargs", lambda v: isinstance(v, dict) and all(isinstance(x, (bool, int, str)) for x in v.values())), ("seed", whole),
              ("filler", one_of("none") if scenario == "concatenated" else one_of("dots", "dashes", "words"))]
    return fields + ([("min_unit_tokens", whole)] if scenario == "concatenated" else [])


def check_record(record, plan, extra=()):
    scenario = plan["scenario"]
    in_unit = scenario == "concatenated"
    origin = {"independent": "alone", "reordered": "with_sample_passages", "concatenated": "in_unit"}[scenario]
    keys("record", record, [
        ("qid", text), ("scenario", one_of(scenario)), ("chunk_size", one_of(plan["chunk_size"])),
        ("request_id", lambda v: re.fullmatch(r"q\d+", v)), ("prompt_hash", hexes(16)),
        ("evidence_source", one_of("dataset", "answer_string", "none")), ("evidence_passage_ids", texts), ("expected_reused_tokens", whole),
        ("unit_position", whole if in_unit else one_of(None)), ("duplicate_of", or_null(text) if in_unit else one_of(None)),
        ("passages", lambda v: isinstance(v, list) and v), *extra])
    for place, passage in enumerate(record["passages"]):
        keys("passage", passage, [
            ("passage_id", hexes(12)), ("origin", one_of(origin)), ("store_request_id", lambda v: re.fullmatch(r"store\d+", v)),
            ("stored_position", one_of(0) if scenario == "independent" else whole), ("measured_position", one_of(place)),
            ("is_evidence", boolean), ("measured_earlier_in", texts), ("pad_tokens", one_of(0) if in_unit else whole)])
    marked = [p["passage_id"] for p in record["passages"] if p["is_evidence"]]
    assert record["evidence_passage_ids"] == marked and (record["evidence_source"] == "none") == (not marked), record["qid"]


def check_plan(out):
    plan_file = strict(f"{out}/plan.json")
    scenario = plan_file["plan"]["scenario"]
    keys("plan.json", plan_file, [
        ("schema_version", one_of(1)), ("plan_fingerprint", hexes(16)), ("prompts_digest", hexes(16)), ("lmcache_version", version),
        ("created_at", time_), ("settings", part(settings_fields(scenario))), ("plan", lambda v: isinstance(v, dict))])
    plan = plan_file["plan"]
    keys("plan", plan, [("scenario", one_of(scenario)), ("chunk_size", one_of(plan_file["settings"]["chunk_size"])),
                        ("store_requests", lambda v: isinstance(v, list)), ("samples", lambda v: isinstance(v, list)),
                        ("padding", part([("filler", text), ("pad_tokens", whole), ("prompt_tokens", whole)]))])
    for i, store in enumerate(plan["store_requests"]):
        keys("store", store, [("request_id", one_of(f"store{i}")), ("messages", messages)])
    extra = [("question", text), ("answers", lambda v: texts(v) and v), ("documents", texts),
             ("evidence_indices", lambda v: isinstance(v, list) and all(map(whole, v))), ("messages", messages)]
    seen = {}
    for i, sample in enumerate(plan["samples"]):
        check_record(sample, plan, extra)
        assert sample["request_id"] == f"q{i}" and sample["prompt_hash"] == digest(dumps(sample["messages"]), 16)
        assert sorted(p["passage_id"] for p in sample["passages"]) == sorted(digest(d, 12) for d in sample["documents"])
        for passage in sample["passages"]:
            assert passage["measured_earlier_in"] == seen.get(passage["passage_id"], []), passage
        for identity in {p["passage_id"] for p in sample["passages"]}:
            seen.setdefault(identity, []).append(f"q{i}")
        if sample["evidence_source"] == "dataset":
            assert {digest(sample["documents"][k], 12) for k in sample["evidence_indices"]} == set(sample["evidence_passage_ids"])
        else:
            assert sample["evidence_indices"] == []
        # Reordered is reordered (Q8), the others are not.
        measured = [p["stored_position"] for p in sample["passages"]]
        assert plan["scenario"] != "reordered" or (sorted(measured) == list(range(len(measured))) and (measured != sorted(measured) or len(measured) < 2))
    # Every prompt begins with the same system block, the filler behind it included (Q7).
    prompts = [r["messages"][0]["content"] for r in plan["store_requests"] + plan["samples"]]
    assert len({p.split("\nPassage ")[0].split("Passage ")[0] for p in prompts}) == 1
    manifest = strict(f"{out}/manifest.jsonl")
    names = {name for name, _ in extra}
    assert [json.dumps(r) for r in manifest] == [json.dumps({k: v for k, v in s.items() if k not in names}) for s in plan["samples"]]
    assert plan_file["prompts_digest"] == digest(dumps([r["messages"] for r in plan["store_requests"] + plan["samples"]]), 16)
    fingerprint = {"settings": plan_file["settings"], "prompts_digest": plan_file["prompts_digest"]}
    assert plan_file["plan_fingerprint"] == digest(dumps(fingerprint), 16)
    return plan_file


def check_pass(out, label, plan_file):
    samples = plan_file["plan"]["samples"]
    arm = strict(f"{out}/arm_{label}.json")
    role = label.split("_")[0]
    measured = arm["engagement_measured"]
    assert not measured or label == "candidate"
    keys(f"arm_{label}.json", arm, [
        ("schema_version", one_of(1)), ("plan_fingerprint", one_of(plan_file["plan_fingerprint"])), ("role", one_of(role)),
        ("run_index", one_of(int(label.split("_")[1]) - 1 if role == "reference" else 0)), ("label", one_of(label)), ("url", text),
        ("blend_metrics_url", lambda v: text(v) and bool(v) == measured), ("engine_version", or_null(text)), ("lmcache_version", version),
        ("started_at", time_), ("finished_at", time_), ("engagement_measured", boolean),
        ("counters", part(COUNTER_FIELDS) if measured else one_of(None)), ("store_failures", one_of(0) if role == "reference" else whole),
        ("num_questions", one_of(len(samples)))])
    answers = strict(f"{out}/answers_{label}.jsonl")
    for answer, sample in zip(answers, samples, strict=True):
        failed = not answer["successful"]
        keys(f"answers_{label}.jsonl", answer, [
            ("qid", one_of(sample["qid"])), ("request_id", one_of(sample["request_id"])), ("successful", boolean),
            ("answer", one_of("") if failed else text), ("response", text),
            ("ttft", lambda v: v == -1.0 if failed else real(v) and v >= 0 and round(v, 4) == v), ("num_output_tokens", whole),
            ("counters", part(COUNTER_FIELDS) if measured else one_of(None))])
    return arm, answers


def paired(scores, reference):
    n = len(scores)
    differences = [a - b for a, b in zip(scores, reference)]
    delta = sum(differences) / n
    error = math.sqrt(sum((d - delta) ** 2 for d in differences) / (n - 1) / n) if n > 1 else None
    return sum(scores) / n, delta, error


def near(a, b):
    return a is b is None or abs(a - b) < 1e-9


def check(out, metric):
    """The whole directory after an analyze with this metric; its summary."""
    plan_file = check_plan(out)
    settings, plan = plan_file["settings"], plan_file["plan"]
    labels = sorted((n[4:-5] for n in os.listdir(out) if n.startswith("arm_")),
                    key=lambda l: (not l.startswith("reference"), l == "candidate", int(l.split("_")[1]) if "_" in l else 0))
    passes = {label: check_pass(out, label, plan_file) for label in labels}
    arm, candidate = passes["candidate"]
    measured, judged = arm["engagement_measured"], metric == "judge"
    steps = {"match": (0.0, 1.0), "f1": None, "judge": tuple(i / 8 for i in range(9))}[metric]

    def score(value):
        return judged if value is None else real(value) and 0 <= value <= 1 and (steps is None or value in steps)

    rows = strict(f"{out}/rows.jsonl")
    for i, (row, sample, answer) in enumerate(zip(rows, plan["samples"], candidate, strict=True)):
        counters = answer["counters"]
        prefix = counters and counters["prefix_hit_tokens"] + counters["segmented_prefix_hit_tokens"]
        blended = counters and counters["non_prefix_hit_tokens"]
        kind = counters and ("none" if prefix == blended == 0 else "prefix" if prefix > blended else "blended")
        share = counters and (min(1.0, max(0.0, blended / counters["requested_tokens"])) if counters["requested_tokens"] > 0 else 0.0)
        evidence = [{k: p[k] for k in ("passage_id", "origin", "stored_position", "measured_position")} for p in sample["passages"] if p["is_evidence"]]
        keys("rows.jsonl", row, [
            ("qid", one_of(sample["qid"])), ("gold", one_of(sample["answers"])),
            ("scores", lambda v: list(v) == labels and all(map(score, v.values()))),
            *([("match", lambda v: list(v) == labels and all(x in (0.0, 1.0) for x in v.values()))] if judged else []),
            ("answers", one_of({label: passes[label][1][i]["answer"] for label in labels})),
            ("loss_tag", or_null(one_of(*TAGS))), ("reference_flipped", or_null(boolean)), ("blend_share", lambda v: near(v, share)),
            ("reuse", part([("expected_tokens", one_of(sample["expected_reused_tokens"])), ("kind", one_of(kind)),
                            ("prefix_tokens", one_of(prefix)), ("blended_tokens", one_of(blended))])),
            ("evidence", one_of(evidence))])
        own, first = row["scores"]["candidate"], row["scores"]["reference_1"]
        if None in (own, first):
            assert row["loss_tag"] is None
        else:
            lost = "none" if own == first else "candidate_higher" if own > first else None
            assert row["loss_tag"] == lost if lost else row["loss_tag"] in TAGS[2:], row
            assert (row["loss_tag"] == "empty") == (row["answers"]["candidate"] == "" and own < first)
        second = row["scores"].get("reference_2")
        assert row["reference_flipped"] == (None if None in (second, first) else second != first), row
        assert all(row["scores"][label] == 0.0 for label in labels if row["answers"][label] == ""), row
    check_summary(out, metric, plan_file, labels, passes, rows, measured)
    if judged:
        check_cache(out, plan, labels, passes, settings)
    return strict(f"{out}/summary.json")


def check_summary(out, metric, plan_file, labels, passes, rows, measured):
    settings, plan = plan_file["settings"], plan_file["plan"]
    judged = metric == "judge"
    summary = strict(f"{out}/summary.json")
    arm, candidate = passes["candidate"]
    references = [label for label in labels if label.startswith("reference")]
    comparison = [("label", text), ("mean_score", real), ("delta", real), ("standard_error", or_null(real))]
    gate = "reuse" if plan["scenario"] == "concatenated" else "blend_share"
    verdict_settings = [("verdict_metric", one_of(metric))] + ([("judge_model", text)] if judged else []) + [
        ("reference_repeats", one_of(len(references))), ("tolerance", number), ("min_blend_share", number), ("min_reuse_ratio", number),
        ("blend_metrics_url", one_of(arm["blend_metrics_url"]))]
    keys("summary.json", summary, [
        ("run_fingerprint", hexes(16)), ("plan_fingerprint", one_of(plan_file["plan_fingerprint"])),
        ("settings", part(settings_fields(plan["scenario"]) + verdict_settings)),
        ("arms", lambda v: list(v) == labels), ("num_questions", one_of(len(rows))), ("unscored_questions", whole),
        ("judge", part([("model", text), ("metric", one_of("ragas-0.4.3/nv_accuracy"))]) if judged else one_of(None)),
        ("evidence_sources", part([("dataset", whole), ("answer_string", whole), ("none", whole)])), ("measured_earlier_share", real),
        ("padding", part([("filler", text), ("pad_tokens", whole), ("prompt_tokens", whole), ("share", real)])),
        ("reuse", part([("expected_tokens", whole), ("observed_tokens", real), ("observed_prefix_tokens", real), ("observed_blended_tokens", real),
                        ("observed_over_expected", or_null(real)), ("groups", lambda v: isinstance(v, list))]) if measured else one_of(None)),
        ("num_store_requests", one_of(len(plan["store_requests"]))), ("verdict", one_of("PASS", "FAIL", "UNDERPOWERED", "INVALID")),
        ("invalid_reasons", texts), ("samples_needed", whole), ("reference_flip_rate", real), ("candidate", part(comparison)),
        ("others", lambda v: [o["label"] for o in v] == [l for l in labels if l not in ("reference_1", "candidate")]
         and all(keys("others", o, comparison) for o in v)),
        ("engagement", part([("measured", one_of(measured)), ("blend_share", real), ("min_window_share", real), ("stale_chunks", real),
                             ("segmented_prefix_hit_tokens", real), ("fingerprints_registered", real), ("engaged", boolean), ("gate", one_of(gate)),
                             ("reuse_ratio", or_null(real)), ("min_window_reuse_ratio", or_null(real))])),
        ("arm_counts", lambda v: list(v) == labels and all(keys("arm_counts", c, [("answered", whole), ("empty", whole), ("abstained", whole)])
                                                           for c in v.values())),
        ("store_failures", one_of({label: passes[label][0]["store_failures"] for label in labels})),
        ("loss_tags", lambda v: all(tag in TAGS and whole(n) and n > 0 for tag, n in v.items()))])
    for label, entry in summary["arms"].items():
        copied = ("url", "engine_version", "lmcache_version", "started_at", "finished_at")
        assert list(entry) == list(copied) and all(entry[k] == passes[label][0][k] for k in copied), entry
    fingerprint = {"settings": settings, "verdict_metric": metric, "prompts_digest": plan_file["prompts_digest"]}
    if judged:
        fingerprint |= {"judge_model": summary["judge"]["model"], "judge_metric": summary["judge"]["metric"]}
    assert summary["run_fingerprint"] == digest(dumps(fingerprint), 16)
    # The figures, from the rows.
    scored = [row["scores"] for row in rows if None not in row["scores"].values()]
    assert summary["unscored_questions"] == len(rows) - len(scored)
    for entry in [summary["candidate"], *summary["others"]]:
        if scored:
            mean, delta, error = paired([s[entry["label"]] for s in scored], [s["reference_1"] for s in scored])
            assert near(entry["mean_score"], mean) and near(entry["delta"], delta) and near(entry["standard_error"], error), entry
    flips = [row["reference_flipped"] for row in rows if row["reference_flipped"] is not None]
    assert near(summary["reference_flip_rate"], -1.0 if len(references) == 1 else sum(flips) / len(flips) if flips else 0.0)
    assert summary["loss_tags"] == {t: n for t in TAGS if (n := sum(row["loss_tag"] == t for row in rows))}
    passages = [p for s in plan["samples"] for p in s["passages"]]
    assert near(summary["measured_earlier_share"], sum(bool(p["measured_earlier_in"]) for p in passages) / len(passages))
    padding = summary["padding"]
    assert {k: padding[k] for k in plan["padding"]} == plan["padding"] and near(padding["share"], padding["pad_tokens"] / padding["prompt_tokens"])
    sources = summary["evidence_sources"]
    assert sources == {k: sum(s["evidence_source"] == k for s in plan["samples"]) for k in sources}
    for label, counts in summary["arm_counts"].items():
        empty = sum(a["answer"] == "" for a in passes[label][1])
        assert counts["empty"] == empty and counts["answered"] == len(rows) - empty and counts["abstained"] <= counts["answered"], counts
    check_gate(summary, plan, arm, candidate, rows, scored)


def check_gate(summary, plan, arm, candidate, rows, scored):
    gate, limits, total = summary["engagement"], summary["settings"], arm["counters"]
    reset = any(v < 0 for c in [total, *(a["counters"] for a in candidate)] if c for v in c.values())
    if reset:  # Q11; what falls gives no share that could be recomputed
        assert any(reason.startswith("counter_reset") for reason in summary["invalid_reasons"]), summary["invalid_reasons"]
    elif total is None:
        assert gate["engaged"] and not any(gate[k] for k in ("blend_share", "min_window_share", *COUNTERS[3:]))
    else:
        reused = total["prefix_hit_tokens"] + total["segmented_prefix_hit_tokens"] + total["non_prefix_hit_tokens"]
        expected = [s["expected_reused_tokens"] for s in plan["samples"]]
        looked_up = total["requested_tokens"]
        assert near(gate["blend_share"], total["non_prefix_hit_tokens"] / looked_up if looked_up else 0.0), gate
        assert all(gate[k] == total[k] for k in COUNTERS[3:]), gate
        reuse = summary["reuse"]
        assert reuse["expected_tokens"] == sum(expected) and reuse["observed_tokens"] == reused, reuse
        assert near(reuse["observed_over_expected"], reused / sum(expected)), reuse
        assert sum(g["questions"] for g in reuse["groups"]) == len(scored), reuse
        for group in reuse["groups"]:
            keys("group", group, [("kind", one_of("prefix", "blended", "none")), ("questions", whole), ("delta", real), ("standard_error", or_null(real))])
            own = [r["scores"] for r in rows if r["reuse"]["kind"] == group["kind"] and None not in r["scores"].values()]
            _, delta, error = paired([s["candidate"] for s in own], [s["reference_1"] for s in own])
            assert near(group["delta"], delta) and near(group["standard_error"], error), group
        windows = [range(i, i + 10) for i in range(0, len(rows) - 9, 10)]
        sums = [{name: sum(candidate[i]["counters"][name] for i in w) for name in COUNTERS} for w in windows]
        if windows:
            shares = [s["non_prefix_hit_tokens"] / s["requested_tokens"] if s["requested_tokens"] else 0.0 for s in sums]
            assert near(gate["min_window_share"], min(shares)), (gate, shares)
        reuse_gate = gate["gate"] == "reuse"
        run, low, limit = gate["blend_share"], gate["min_window_share"], limits["min_blend_share"]
        if reuse_gate:
            ratios = [(s["prefix_hit_tokens"] + s["segmented_prefix_hit_tokens"] + s["non_prefix_hit_tokens"]) / sum(expected[i] for i in w)
                      for s, w in zip(sums, windows)]
            run, low, limit = gate["reuse_ratio"], gate["min_window_reuse_ratio"], limits["min_reuse_ratio"]
            assert near(run, reused / sum(expected)) and (not windows or near(low, min(ratios))), gate
        else:
            assert gate["reuse_ratio"] is None and gate["min_window_reuse_ratio"] is None
        assert gate["engaged"] == (run >= limit and low >= limit), gate
    # The verdict, as decided.
    n, delta, error, tolerance = len(scored), summary["candidate"]["delta"], summary["candidate"]["standard_error"], limits["tolerance"]
    if summary["invalid_reasons"]:
        verdict = "INVALID"
    elif error is not None and abs(delta) > tolerance and abs(delta) > 2 * error:
        verdict = "FAIL"
    else:
        verdict = "UNDERPOWERED" if error is None or 2 * error > tolerance else "PASS"
    assert summary["verdict"] == verdict, summary
    assert summary["samples_needed"] == (math.ceil(n * (2 * error / tolerance) ** 2) if verdict == "UNDERPOWERED" and error and tolerance else 0), summary
    assert not any(summary["store_failures"].values()) or summary["invalid_reasons"]
    assert gate["engaged"] or summary["invalid_reasons"]
    assert summary["unscored_questions"] * 20 <= len(rows) or summary["invalid_reasons"]


def check_cache(out, plan, labels, passes, settings):
    model = strict(f"{out}/summary.json")["settings"]["judge_model"]
    asked = {}
    for i, sample in enumerate(plan["samples"]):
        for label in labels:
            answer = passes[label][1][i]["answer"]
            if answer:
                key = digest(json.dumps(["ragas-0.4.3/nv_accuracy", model, sample["question"], answer, sample["answers"][0]]))
                asked.setdefault(key, []).append((i, label))
    rows = strict(f"{out}/rows.jsonl")
    cache = strict(f"{out}/judge_cache.jsonl") if os.path.exists(f"{out}/judge_cache.jsonl") else []
    for line in cache:
        rating = or_null(one_of(0.0, 0.25, 0.5, 0.75, 1.0))
        keys("judge_cache.jsonl", line, [("key", hexes(64)), ("score", real), ("ratings", lambda v: isinstance(v, list) and len(v) == 2 and all(map(rating, v)))])
        there = [r for r in line["ratings"] if r is not None]
        assert near(line["score"], sum(there) / len(there)), line
        for i, label in asked.get(line["key"], []):
            assert rows[i]["scores"][label] == line["score"], (line, rows[i])
    known = {line["key"] for line in cache}
    for key, places in asked.items():
        assert key in known or all(rows[i]["scores"][label] is None for i, label in places), key
