"""Changes that hurt someone and streams that cannot be trusted, five and more of each sort: none
may end green.
"""

from __future__ import annotations

import json

import pytest

from inferplan.commands.report.report import completed, read_or_explain
from inferplan.pulumi_engine.reading.records import EventsError
from inferplan.review.reading.preview import Preview
from inferplan.review.reading.reader import read_bytes
from inferplan.review.rendering.markdown import render
from inferplan.review.report import make_report
from inferplan.review.risks.guards import Guards
from inferplan.review.verdict import BLOCKED, CALM
from tests.review_streams import SECRET, document, facts, preview, stack_step, step, stream

SECRET_TYPE = "kubernetes:core/v1:Secret"  # noqa: S105 - a type, not a secret
GATE = {"gateway": {"door": {"implementation": "kong"}}}


def models(**consumers):
    return {
        **GATE,
        "model": {
            name.replace("_", "-"): {"consumers": list(each)} for name, each in consumers.items()
        },
    }


def keys(**versions):
    return {"consumer": {name: {"keys": list(each)} for name, each in versions.items()}}


def consumer_secret(name, value, part="data"):
    return {
        "metadata": {
            "name": f"consumer-{name}",
            "labels": {"app.kubernetes.io/instance": f"consumer-{name}"},
        },
        part: {"key": value},
    }


def seed(part, old, new, **more):
    same = keys(web=[7], etl=[1])
    both = (consumer_secret("web", old, part), consumer_secret("web", new, part))
    return [
        facts(same, same),
        step(more.pop("op", "update"), SECRET_TYPE, "consumer-web", *both, **more),
    ]


def weights(old, new):
    return [facts(*({"model": {"mistral-7b": each}} for each in (old, new)))]


ACCESS = [
    ([facts(models(mistral_7b=["web", "etl"]), models(mistral_7b=["web"]))], ["etl", "mistral-7b"]),
    ([facts(models(mistral_7b=["web", "etl"]), models(mistral_7b=[]))], ["web", "etl"]),
    ([facts(models(mistral_7b=["web"]), models(mistral_7b=["web2"]))], ["web", "mistral-7b"]),
    ([facts(models(phi_4=["web"]), GATE)], ["web", "phi-4"]),
    ([facts(models(phi_4=["web"]), {"model": models(phi_4=["web"])["model"]})], ["web", "phi-4"]),
    ([facts(models(phi_4=["web"]), {**GATE, "model": {"phi-4": {}}})], ["web", "phi-4"]),
    ([facts(keys(web=[7, 8]), keys(web=[8]))], ["web", "7"]),
    ([facts(keys(web=[7.0, 8.0]), keys(web=[8]))], ["web", "key 7"]),
    ([facts(keys(web=[7], etl=[1]), keys(web=[7]))], ["etl", "every key"]),
    (
        [
            facts(
                *(
                    {"consumer": {"web": {"keys": [7, 8], "importedKeys": each}}}
                    for each in ([7, 8], [8])
                )
            )
        ],
        ["web", "another key", "7"],
    ),
]
SEEDS = [
    (seed("data", "b2xk", "bmV3"), ["web", "apiKeySeed"]),
    (seed("stringData", SECRET, SECRET, diffs=["stringData"]), ["web", "apiKeySeed"]),
    (
        seed("data", SECRET, SECRET, diff={"data.key": {"diffKind": "update", "inputDiff": True}}),
        ["web", "apiKeySeed"],
    ),
    (seed("data", SECRET, SECRET, op="replace", keys=["data"]), ["web", "apiKeySeed"]),
    (seed("data", "b2xk", "bmV3", diff={"data": {"diffKind": "update"}}), ["web", "apiKeySeed"]),
]
WEIGHTS = [
    (
        weights({"weights": {"path": "mistral"}}, {"weights": {"path": "mistral-v2"}}),
        ["mistral-7b", "weights"],
    ),
    (
        weights({"weights": {"store": "s", "path": "m"}}, {"weights": {"store": "t", "path": "m"}}),
        ["mistral-7b", "weights"],
    ),
    (
        weights({"weights": {"path": "m", "revision": "a"}}, {"weights": {"path": "m"}}),
        ["mistral-7b", "weights"],
    ),
    (
        weights({"parts": {"kind": "a/kind"}}, {"parts": {"kind": "a/rude"}}),
        ["mistral-7b", "weights"],
    ),
    (
        weights(
            {"artifacts": {"engine": {"path": "e1"}}}, {"artifacts": {"engine": {"path": "e2"}}}
        ),
        ["mistral-7b", "weights"],
    ),
]
UNKNOWN_TYPES = (
    "gcp:storage:Bucket",
    "azure:sql:Database",
    "pulumi-python:dynamic:Resource",
    "kubernetes:acme.dev/v1:Tape",
    "acme:x:Y",
)
UNKNOWN = [
    ([step(op, type_, "archive", {"a": 1}, None if op == "delete" else {"a": 2})], ["archive"])
    for type_ in UNKNOWN_TYPES
    for op in ("delete", "replace")
]


def rotation(old, new, secret):
    """A change of the seed: whether the previous one is valid before and after it, and whether
    consumers get other keys.
    """
    sides = [{**keys(web=[7]), "stack": {"stack": {"previousSeed": each}}} for each in (old, new)]
    both = (consumer_secret("web", "b2xk"), consumer_secret("web", "bmV3" if secret else "b2xk"))
    return [facts(*sides), step("update" if secret else "same", SECRET_TYPE, "consumer-web", *both)]


@pytest.mark.parametrize(
    ("events", "weight", "words"),
    [
        (rotation(False, False, True), 0, "all keys change for"),
        (rotation(False, True, True), 1, "all keys change for"),
        (rotation(True, False, False), 0, "keys of the previous seed end for"),
        (rotation(True, True, True), 1, "all keys change for"),
        (rotation(True, False, True), 0, "all keys change for"),
    ],
)
def test_a_rotation_of_the_seed_is_red_when_keys_end(events, weight, words):
    report = make_report([preview(*events)])
    first = report.stacks[0].risks[0]
    assert (first.what, first.weight, first.name) == (words, weight, "web")
    assert report.rank < CALM


@pytest.mark.parametrize(("events", "words"), [*ACCESS, *SEEDS, *WEIGHTS, *UNKNOWN])
def test_a_change_that_hurts_someone_is_a_red_risk_that_names_them(events, words):
    report = make_report([preview(*events)])
    assert report.rank < CALM, report.verdict
    first = report.stacks[0].risks[0]
    assert first.weight == 0
    text = f"{first.what} {first.kind} {first.name} {first.cause}"
    assert [word for word in words if word not in text] == [], text


def without_facts(old, new, **summary):
    return read_bytes(stream(stack_step(old, new), CREATED, **summary))


KNOWN = document(**GATE)


@pytest.mark.parametrize(
    ("read", "cause"),
    [
        (lambda: without_facts({"url": "x"}, KNOWN), "updated by a version without facts"),
        (lambda: without_facts(KNOWN, {"url": "x"}), "no longer states them"),
        (
            lambda: without_facts(KNOWN, KNOWN, result="failed"),
            "ended before it stated the new facts",
        ),
        (lambda: without_facts({"facts": {"version": 7}}, KNOWN), "facts of version 7; expected 1"),
        (lambda: without_facts(KNOWN, {"facts": {"version": 1, "model": ["m"]}}), "damaged facts"),
        (lambda: without_facts(KNOWN, {"facts": "[secret]"}), "facts of version None"),
        (
            lambda: read_bytes(json.dumps({"steps": [], "changeSummary": {"same": 3}}).encode()),
            "the digest of a preview has no facts",
        ),
    ],
)
def test_facts_that_cannot_be_compared_are_a_risk(read, cause):
    report = make_report([read()])
    [risk] = [each for each in report.stacks[0].risks if each.what == "states no facts to compare"]
    assert risk.weight == 1
    assert cause in risk.cause
    assert report.rank < CALM


def test_a_run_that_a_rule_blocked_after_its_outputs_is_compared_fact_by_fact():
    sides = [
        document(gateway={"door": {"scheme": scheme, "host": "models.acme.example"}})
        for scheme in ("https", "http")
    ]
    # The engine sends the outputs of the last update with the stack's registration, and the
    # program's own at the end.
    blocked = read_bytes(
        stream(
            stack_step(sides[0], sides[0]),
            CREATED,
            stack_step(*sides),
            counts={"same": 1, "create": 1},
            result="failed",
        )
    )
    assert [each.what for each in make_report([blocked]).stacks[0].risks][:1] == [
        "no longer uses TLS"
    ]


@pytest.mark.parametrize(
    "events", [[stack_step({"url": "x"}, {"url": "x"})], [stack_step(KNOWN, KNOWN)], [stack_step()]]
)
def test_programs_without_facts_and_unchanged_facts_are_no_risk(events):
    report = make_report([preview(*events)])
    assert report.stacks[0].risks == ()
    assert report.stacks[0].outputs == ()


def test_a_fact_that_no_table_knows_is_a_risk_with_both_values():
    [risk] = (
        make_report(
            [
                preview(
                    facts({"model": {"m": {"colour": "red"}}}, {"model": {"m": {"colour": "blue"}}})
                )
            ]
        )
        .stacks[0]
        .risks
    )
    assert (risk.what, risk.kind, risk.name, risk.cause) == (
        "changes",
        "model",
        "m",
        "colour: red → blue",
    )
    assert risk.weight == 1


BUCKET = "aws:s3/bucket:Bucket"


def failed_replacement(create, order):
    parts = {
        "gone": step("delete-replaced", BUCKET, "vault", {"bucket": "v"}),
        "fails": {
            "resOpFailedEvent": step(create, BUCKET, "vault", {"bucket": "v"}, {"bucket": "w"})[
                "resOutputsEvent"
            ]
        },
        "replace": step(
            "replace", BUCKET, "vault", {"bucket": "v"}, {"bucket": "w"}, keys=["bucket"]
        ),
    }
    return stream(
        *(parts[each] for each in order), counts={"replace": 1}, isPreview=False, result="failed"
    )


@pytest.mark.parametrize(
    ("create", "order"),
    [
        ("create-replacement", ("gone", "replace", "fails")),
        ("create-replacement", ("gone", "fails", "replace")),
        ("create-replacement", ("replace", "gone", "fails")),
        ("import-replacement", ("gone", "replace", "fails")),
        ("create-replacement", ("gone", "fails")),
    ],
)
def test_a_replacement_that_failed_after_the_deletion_comes_first(create, order):
    report = make_report([read_bytes(failed_replacement(create, order))])
    assert report.rank <= BLOCKED
    first = report.stacks[0].risks[0]
    assert (first.what, first.name, first.weight) == ("is gone", "vault", 0)


def without_result(*events, **summary):
    lines = [json.loads(line) for line in stream(*events, **summary).splitlines()]
    for each in lines:
        each.get("summaryEvent", {}).pop("result", None)
    return "\n".join(map(json.dumps, lines)).encode()


CREATED = step("create", "kubernetes:core/v1:ConfigMap", "notes", None, {"data": {}})
ERROR = {"diagnosticEvent": {"message": "quota exceeded", "severity": "error"}}
WHOLE = stream(stack_step(), CREATED)
UNTRUSTED = {
    "no result, an error": without_result(CREATED, ERROR),
    "no result, an engine error": without_result(
        CREATED, {"errorEvent": {"error": "lost the lease"}}
    ),
    "no result, a failed step": without_result(
        {"resOpFailedEvent": CREATED["resOutputsEvent"]}, counts={"create": 1}
    ),
    "no result, counts of more": without_result(CREATED, counts={"create": 2}),
    "no result, a corrupt state": without_result(CREATED, maybeCorrupt=True),
    "result failed": stream(CREATED, result="failed"),
    "result canceled": stream(CREATED, result="canceled"),
    "a result of the future": stream(CREATED, result="partially"),
    "empty": b"",
    "blank": b"\n \n",
    "a prelude only": WHOLE.splitlines()[0],
    "cut between events": b"\n".join(WHOLE.splitlines()[:-2]),
    "cut in an event": WHOLE[: len(WHOLE) // 2],
    "no steps": stream(counts={"create": 1}),
    "a step too many": stream(CREATED, step("delete", BUCKET, "v", {}), counts={"create": 1}),
    "a step that only began": stream(
        {"resourcePreEvent": CREATED["resOutputsEvent"]}, counts={"create": 2}
    ),
    "a digest without counts": json.dumps({"steps": []}).encode(),
    "a digest that lists less": json.dumps({"steps": [], "changeSummary": {"delete": 3}}).encode(),
}


@pytest.mark.parametrize(
    "content", [pytest.param(content, id=name) for name, content in UNTRUSTED.items()]
)
def test_a_stream_that_cannot_be_trusted_is_red(content):
    report = make_report([read_bytes(content)])
    assert report.rank <= BLOCKED, report.verdict
    assert "⛔" in render(report).splitlines()[1]


@pytest.mark.parametrize(
    "content",
    [
        WHOLE + WHOLE,
        WHOLE.replace(b"cancelEvent", b"summaryEvent"),
        WHOLE + stream(CREATED).replace(b"urn:pulumi:dev::tiny", b"urn:pulumi:prod::tiny"),
        b"PK\x03\x04" + WHOLE,
        b"[]\n" + WHOLE,
        b'{"steps": 1}',
    ],
)
def test_a_file_that_is_no_single_stream_is_an_error_or_incomplete(tmp_path, content):
    with pytest.raises(EventsError):
        read_bytes(content)
    path = tmp_path / "prod.ndjson"
    path.write_bytes(content)
    absent = read_or_explain(path)
    assert isinstance(absent, Preview)
    assert make_report([absent]).rank <= BLOCKED


GOOD = read_bytes(stream(stack_step()).replace(b"dev::tiny", b"blue::inferplan"))


@pytest.mark.parametrize(
    ("previews", "expected"),
    [
        ([], {"blue": "changed"}),
        ([], {"blue": "new"}),
        ([], {"blue": "deleted"}),
        ([GOOD, GOOD], {"blue": "changed"}),
        ([GOOD], {"blue": "changed", "green": "changed"}),
        ([GOOD], {"blue": "deleted"}),
    ],
)
def test_a_stack_without_exactly_one_preview_is_red(previews, expected):
    report = make_report(completed(previews, expected, ()))
    assert report.rank <= BLOCKED
    assert {*expected} <= {each.stack for each in report.stacks}


ENFORCED = {
    "levels": {"tls": "mandatory"},
    "exemptions": [],
    "parameters": {"registries": {"allow": ["a"]}},
}


@pytest.mark.parametrize(
    "after",
    [
        ENFORCED | {"levels": {"tls": "advisory"}},
        ENFORCED | {"levels": {"tls": "disabled"}},
        ENFORCED
        | {
            "exemptions": [{"rule": "tls", "resource": "*", "reason": "x", "expires": "2999-01-01"}]
        },
        ENFORCED | {"parameters": {"registries": {"allow": ["a", "*"]}}},
        ENFORCED | {"newKey": True},
    ],
)
def test_weaker_policy_settings_are_never_green(after):
    guards = Guards(before=ENFORCED, after=after, today="2026-11-22")
    assert make_report([GOOD], read_guards=lambda _: guards).rank < CALM
    assert (
        make_report(
            [GOOD], read_guards=lambda _: Guards(before=after, after=after, today="2026-11-22")
        ).rank
        >= CALM
    )
