from __future__ import annotations

import dataclasses
import json
import re

import pytest

from inferplan.commands.main import run
from tests.checkouts import committed, git, make_checkout
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.cluster]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("checkout"))


def rehearsed(checkout, head, monkeypatch, tmp_path) -> tuple[int, dict]:
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    target = tmp_path / "findings.json"
    with pytest.raises(SystemExit) as end:
        run(
            [
                "rehearse-change",
                "HEAD",
                head,
                "--stack",
                "local",
                "--save",
                str(target),
                "--timeout",
                str(2 * PATIENCE_SECONDS),
            ]
        )
    return int(end.value.code or 0), json.loads(target.read_text())


@pytest.mark.full
def test_new_weights_roll_in_place_and_lowest_replicas_are_recorded(
    checkout, monkeypatch, tmp_path
):
    keys = (
        (r"batch: \{keys: \[1\]\}", "batch: {keys: [2]}"),
        (r"batch: \{issued: 1\}", "batch: {issued: 2, spent: 1}"),
    )
    head = committed(checkout, ("revision: 8afb486c", "revision: 9afb486c"), *keys)
    code, found = rehearsed(checkout, head, monkeypatch, tmp_path)
    assert (code, found["outcome"]) == (0, "ready")
    lowest = {each["name"]: each["lowest_ready"] for each in found["models"]}
    assert lowest["llama-3-8b"] == 1
    assert any(each.startswith("Deployment inference/llama-3-8b ") for each in found["order"])
    assert git(checkout, "worktree", "list").count("\n") == 0


@pytest.mark.full
def test_requests_that_a_change_denies_or_loses_are_reported(checkout, monkeypatch, tmp_path):
    """The clients have the newest key of the base, which the head retires. The only replica of
    llama-3-70b stops before its successor starts.
    """
    keys = (
        (r"chat: \{keys: \[2, 1\]\}", "chat: {keys: [3]}"),
        (r"chat: \{issued: 2\}", "chat: {issued: 3, spent: 2}"),
    )
    code, found = rehearsed(checkout, committed(checkout, *keys), monkeypatch, tmp_path)
    assert (code, found["outcome"], found["uncalled"]) == (0, "ready", [])
    clients = {each["model"]: each for each in found["clients"]}
    assert clients.keys() == {"llama-3-8b", "llama-3-70b"}
    for model, each in clients.items():
        assert each["sent"] > 2
        assert re.match(
            rf"[1-9][0-9]* denied: {model} answers 401: the API key is missing or not valid",
            each["troubles"][0],
        )


@pytest.mark.full
def test_a_rollout_loses_no_request_of_a_model_with_two_replicas(checkout, monkeypatch, tmp_path):
    head = committed(
        checkout,
        ("revision: 8afb486c", "revision: 9afb486c"),
        ("revision: 6f6073b4", "revision: 7f6073b4"),
    )
    code, found = rehearsed(checkout, head, monkeypatch, tmp_path)
    clients = {each["model"]: each for each in found["clients"]}
    assert (code, clients["llama-3-8b"]["troubles"]) == (0, [])
    assert clients["llama-3-8b"]["sent"] > 2
    # Its only replica stops before its successor starts, which fake nodes do faster than some
    # requests follow each other.
    assert all(" lost: " in each for each in clients["llama-3-70b"]["troubles"])


@pytest.mark.full
def test_report_quotes_api_server_on_immutable_fields(checkout, monkeypatch, tmp_path):
    from inferplan.review.findings import load
    from inferplan.review.rendering.markdown import render
    from inferplan.review.report import make_report
    from tests.review_streams import preview, stack_step

    # Every Deployment selects its pods by one label more.
    more = (r"(INSTANCE_LABEL: instance)\}", r'\1, "app.kubernetes.io/version": "two"}')
    head = committed(checkout, more, file="inferplan/components/naming.py")
    code, found = rehearsed(checkout, head, monkeypatch, tmp_path)
    assert (code, found["outcome"]) == (0, "ready")
    words = "the API server does not update it in place: spec.selector: field is immutable"
    assert any(
        each.startswith("Deployment inference/gateway: ") and each.endswith(words)
        for each in found["replaced"]
    )
    findings = load((tmp_path / "findings.json").read_bytes(), source="findings.json")
    assert findings is not None
    # The streams of the tests are of a stack called dev.
    report = make_report(
        [preview(stack_step())], rehearsals=[dataclasses.replace(findings, stack="dev")]
    )
    assert "field is immutable" in render(report)


@pytest.mark.full
def test_rejection_of_pulumi_names_the_existing_object(checkout, monkeypatch, tmp_path):
    # The same Service under another URN: Pulumi creates before it deletes.
    renamed = (
        r"core\.Service\(name, metadata=metadata, spec=_service",
        'core.Service(f"{name}-answers", metadata=metadata, spec=_service',
    )
    head = committed(checkout, renamed, file="inferplan/components/serving/model_service.py")
    code, findings = rehearsed(checkout, head, monkeypatch, tmp_path)
    assert (code, findings["outcome"]) == (3, "refused")
    assert len(findings["refusals"]) == 2
    for each in findings["refusals"]:
        assert "already exists: it belongs to the resource " in each
        assert each.endswith(", and Pulumi creates before it deletes")


@pytest.mark.full
def test_unschedulable_pods_are_pending_with_reason_of_scheduler(checkout, monkeypatch, tmp_path):
    selector = (
        r"node_selector=dict\(target\.node_selector\)",
        'node_selector={"example.com/no": "such"}',
    )
    head = committed(checkout, selector, file="inferplan/components/serving/workload.py")
    code, found = rehearsed(checkout, head, monkeypatch, tmp_path)
    assert (code, found["outcome"]) == (3, "refused")
    assert any("didn't match Pod's node affinity/selector" in each for each in found["pending"])
    assert any(each.startswith("Deployment inference/llama-3-8b") for each in found["waiting"])


def test_missing_revision_is_reported(checkout, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    with pytest.raises(SystemExit) as end:
        run(["rehearse-change", "HEAD", "no-such-branch", "--stack", "local"])
    assert end.value.code == 2
    assert "'no-such-branch' is not a revision" in capsys.readouterr().err


def test_missing_stack_is_reported_before_start_and_checkout_is_removed(
    checkout, monkeypatch, capsys
):
    monkeypatch.chdir(checkout)
    with pytest.raises(SystemExit) as end:
        run(["rehearse-change", "HEAD", "HEAD", "--stack", "nosuch"])
    assert end.value.code == 2
    assert "Unknown stack 'nosuch'." in capsys.readouterr().err
    assert git(checkout, "worktree", "list").count("\n") == 0
