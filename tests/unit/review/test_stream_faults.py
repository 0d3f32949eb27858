"""Faults in a stream: whatever is cut, dropped, doubled, mixed or forged, the report does not call
the change calm.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.pulumi_engine.reading.records import EventsError
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from inferplan.review.verdict import BLOCKED, CALM, INCOMPLETE
from tests.review_streams import preview, step, urn

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LINES = (FIXTURES / "kubernetes-previews" / "changes.ndjson").read_text().splitlines()
EVENTS = [json.loads(line) for line in LINES]
RESOURCES = sorted(
    {each["resOutputsEvent"]["metadata"]["urn"] for each in EVENTS if "resOutputsEvent" in each}
)
ROUTINE = (
    "kubernetes:apps/v1:Deployment",
    "c",
    {"spec": {"replicas": 1}},
    {"spec": {"replicas": 2}},
)


def rank_of(lines):
    """The rank of the report on `lines`; a stream that is refused has none and is as bad as
    incomplete.
    """
    try:
        return make_report([read_bytes("\n".join(lines).encode())]).rank
    except EventsError:
        return INCOMPLETE


def without(found):
    return [json.dumps(each) for each in EVENTS if not found(each)]


def kind_of(event):
    return next(key for key in event if key.endswith("Event"))


@given(st.integers(0, len("\n".join(LINES)) - 1))
def test_a_stream_that_is_cut_anywhere_is_not_calm(length):
    summary = next(index for index, each in enumerate(EVENTS) if "summaryEvent" in each)
    kept = "\n".join(LINES)[:length]
    if kept.count("\n") <= summary:
        assert rank_of([kept]) <= BLOCKED


@pytest.mark.parametrize("name", RESOURCES)
def test_a_stream_without_one_of_its_resources_is_incomplete(name):
    def of_resource(event):
        body = event[kind_of(event)]
        return isinstance(body, dict) and body.get("metadata", {}).get("urn") == name

    assert rank_of(without(of_resource)) == INCOMPLETE


@pytest.mark.parametrize("op", ["create", "update", "delete", "replace"])
def test_a_stream_whose_events_of_one_kind_are_gone_is_incomplete(op):
    def of_op(event):
        body = event[kind_of(event)]
        word = body.get("metadata", {}).get("op", "") if isinstance(body, dict) else ""
        return op in word or (op == "replace" and "replace" in word)

    report = make_report([read_bytes("\n".join(without(of_op)).encode())])
    assert report.rank == INCOMPLETE
    assert f"{op}: " in report.verdict


def test_counts_that_are_forged_to_nothing_do_not_hide_the_resources():
    events = [
        {**each, "summaryEvent": {**each["summaryEvent"], "resourceChanges": {}}}
        if "summaryEvent" in each
        else each
        for each in EVENTS
    ]
    assert rank_of(map(json.dumps, events)) == INCOMPLETE


def test_two_runs_in_one_file_are_rejected():
    with pytest.raises(EventsError, match="the file holds two runs"):
        read_bytes("\n".join([*LINES, *LINES]).encode())


def test_two_stacks_in_one_file_are_rejected():
    other = [line.replace("urn:pulumi:", "urn:pulumi:other-") for line in LINES]
    mixed = [
        line
        for pair in zip(LINES, other, strict=True)
        for line in pair
        if '"summaryEvent"' not in line
    ]
    with pytest.raises(EventsError, match="Give one file per stack"):
        read_bytes("\n".join(mixed).encode())


@pytest.mark.parametrize(
    ("extra", "result"),
    [
        ([{"diagnosticEvent": {"message": "no such pool", "severity": "error"}}], ""),
        ([{"diagnosticEvent": {"message": "no such pool", "severity": "error"}}], "succeeded"),
        ([{"errorEvent": {"error": "resource monitor shut down"}}], ""),
        ([], "failed"),
        ([], "canceled"),
        ([], "exploded"),
    ],
)
def test_failed_is_failed_however_it_is_said(extra, result):
    report = make_report([preview(step("update", *ROUTINE), *extra, result=result)])
    assert report.rank <= BLOCKED
    assert "fail" in report.verdict or "cancel" in report.verdict


def test_warnings_fail_nothing():
    warned = {"diagnosticEvent": {"message": "deprecated", "severity": "warning"}}
    assert make_report([preview(step("update", *ROUTINE), warned, result="")]).rank == CALM


def test_a_replacement_that_failed_after_its_original_was_deleted_is_the_first_thing_to_read():
    name = "data"
    kind, old = "kubernetes:core/v1:ConfigMap", {"data": {"a": "1"}}
    deleted = step("delete-replaced", kind, name, old, None)
    failed = step("create-replacement", kind, name, old, {"data": {"a": "2"}})
    failed = {"resOpFailedEvent": {**failed["resOutputsEvent"], "status": 0, "steps": 1}}
    replaced = step("replace", kind, name, old, {"data": {"a": "2"}}, keys=["data"])
    gone = step("delete", "aws:s3/bucket:Bucket", "weights", {"bucket": "w"})
    report = make_report(
        [preview(gone, deleted, replaced, failed, result="failed", isPreview=False)]
    )
    first = report.stacks[0].risks[0]
    assert (first.weight, first.what, first.name, first.urn) == (
        0,
        "is gone",
        name,
        urn(kind, name),
    )
    assert "failed after the original was deleted" in first.cause
    # Created before the original is deleted, a replacement that fails leaves the original in place.
    report = make_report([preview(replaced, failed, result="failed", isPreview=False)])
    assert all(each.what != "is gone" for each in report.stacks[0].risks)


@pytest.mark.parametrize("op", ["delete", "replace", "update"])
@pytest.mark.parametrize(
    "kind", ["acme:index:Thing", "aws:rds/instance:Instance", "kubernetes:acme.example/v1:Widget"]
)
def test_a_kind_that_the_table_does_not_have_is_never_calm(op, kind):
    old, new = {"size": 1}, None if op == "delete" else {"size": 2}
    event = step(op, kind, "x", old, new, keys=["size"] if op == "replace" else None)
    report = make_report([preview(event)])
    assert report.rank < CALM
    assert report.stacks[0].risks[0].weight == (1 if op == "update" else 0)


def test_a_replacement_whose_creation_fails_is_failed_and_not_counted():
    kind, old, new = "kubernetes:core/v1:ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}
    failed = step("create-replacement", kind, "data", old, new)
    failed = {"resOpFailedEvent": {**failed["resOutputsEvent"], "status": 0, "steps": 1}}
    change = step("update", *ROUTINE)
    read = preview(change, failed, result="failed", isPreview=False, resourceChanges={"update": 1})
    assert read.incomplete == ""
    assert [(each.op, each.failed) for each in read.steps if each.name == "data"] == [
        ("replace", True)
    ]
    assert make_report([read]).rank <= BLOCKED


@pytest.mark.parametrize("name", ["default", "default_4_32_0", "default-eu", "default4"])
def test_the_engine_counts_no_provider_whose_name_begins_with_default(name):
    provider = step("create", "pulumi:providers:kubernetes", name, None, {})
    read = preview(step("update", *ROUTINE), provider, resourceChanges={"update": 1})
    assert (read.incomplete, len(read.steps)) == ("", 1)
