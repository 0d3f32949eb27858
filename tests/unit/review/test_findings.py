from __future__ import annotations

import json
from dataclasses import replace

import pytest

from inferplan.pulumi_engine.reading.records import EventsError
from inferplan.review.findings import findings_of, load, save, table
from inferplan.review.rendering.markdown import render
from inferplan.review.report import make_report
from tests.review_streams import preview, stack_step

RECORDS = [
    {"at": 0.1, "kind": "model", "name": "m", "seconds": 90},
    {"at": 0.2, "kind": "replicas", "name": "m", "wanted": 2, "ready": 2},
    {"at": 0.2, "kind": "replicas", "name": "other", "wanted": 1, "ready": 1},
    {
        "at": 0.3,
        "kind": "applied",
        "target": "ConfigMap inference/c",
        "change": "unchanged",
        "note": "",
    },
    {
        "at": 0.4,
        "kind": "applied",
        "target": "Service inference/m",
        "change": "replaced",
        "note": "spec.clusterIP cannot change",
    },
    {
        "at": 0.5,
        "kind": "applied",
        "target": "Deployment inference/m",
        "change": "changed",
        "note": "",
    },
    {"at": 0.6, "kind": "replicas", "name": "m", "wanted": 2, "ready": 1},
    {
        "at": 0.7,
        "kind": "pending",
        "pod": "m-1",
        "reason": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
    },
    {
        "at": 0.7,
        "kind": "pending",
        "pod": "m-1",
        "reason": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
    },
    {"at": 0.8, "kind": "waiting", "target": "Deployment inference/m", "reason": "1 of 2 ready"},
    {"at": 1.9, "kind": "pruned", "target": "Secret inference/old"},
]


def findings(records=RECORDS, outcome="stuck"):
    return findings_of(records, stack="dev", base="aaa", head="bbb", outcome=outcome)


def test_a_diary_tells_order_lowest_replicas_pending_pods_and_what_was_pruned():
    found = findings()
    assert found.order == ("Service inference/m replaced", "Deployment inference/m changed")
    assert [(each.name, each.wanted, each.lowest_ready, each.minutes) for each in found.models] == [
        ("m", 2, 1, 3)
    ]
    assert found.pending == ("pod m-1: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",)
    assert found.waiting == ("Deployment inference/m: 1 of 2 ready",)
    assert found.replaced == ("Service inference/m: spec.clusterIP cannot change",)
    assert found.pruned == ("Secret inference/old",)
    assert not found.good


def test_what_got_ready_is_not_waited_for_any_more():
    assert (
        findings(
            [*RECORDS, {"at": 2, "kind": "ready", "target": "Deployment inference/m", "note": ""}]
        ).waiting
        == ()
    )


def test_a_refusal_is_told_in_the_words_of_the_cluster():
    records = [
        {
            "at": 1,
            "kind": "failed",
            "target": "PersistentVolumeClaim inference/c",
            "message": "field is immutable",
            "remedy": "x",
        }
    ]
    assert findings(records, "refused").refusals == (
        "PersistentVolumeClaim inference/c: field is immutable",
    )


def test_stored_findings_read_back_the_same():
    assert load(save(findings()), source="f.json") == findings()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"sequence": 0}', b"\xff\xfe", b"[1]", b'"inferplan-rehearsal/1"']
)
def test_what_is_no_findings_is_left_to_others(content):
    assert load(content, source="f.json") is None


def test_damaged_findings_are_refused_with_the_place():
    document = json.loads(save(findings())) | {"models": [{"name": 1}]}
    with pytest.raises(EventsError, match=r"f.json: damaged findings .*models"):
        load(json.dumps(document).encode(), source="f.json")


def test_findings_go_into_the_report_of_their_stack_only():
    report = make_report([preview(stack_step())], rehearsals=[findings()])
    assert report.verdict == "the rehearsed upgrade failed"
    assert "Insufficient nvidia.com/gpu" in render(report)
    other = findings_of(RECORDS, stack="prod", base="a", head="b", outcome="stuck")
    assert make_report([preview(stack_step())], rehearsals=[other]).verdict == "no changes"


def test_hostile_findings_stay_text():
    records = [
        {"at": 1, "kind": "refused", "message": "<script>|@anna \x1b[31m AKIAIOSFODNN7CANARYX"}
    ]
    told = render(make_report([preview(stack_step())], rehearsals=[findings(records, "refused")]))
    for word in ("<script", "@anna", "\x1b", "CANARY"):
        assert word not in told
    assert "CANARY" not in str(table(findings(records, "refused")))


def test_a_rejected_model_is_in_the_verdict_and_is_no_failed_rehearsal():
    trial = findings_of([], stack="dev", base="a", head="", outcome="rejected")
    report = make_report([preview(stack_step())], rehearsals=[trial])
    assert report.verdict == "an engine rejects its model"
    accepted = replace(trial, outcome="accepted", untried=("b: no files",))
    calm = make_report([preview(stack_step())], rehearsals=[accepted])
    assert calm.verdict == "no changes"
    assert "b: no files" in render(calm)
