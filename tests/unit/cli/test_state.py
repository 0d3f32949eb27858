"""Why a model has no replica, and when a stack is as wanted, told from what the cluster says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from operations.contract import contract_of
from operations.model_status import queue_messages
from operations.preheat_status import PreheatRow
from operations.status import StackState, read_state
from operations.workspace import open_workspace

ROOT = Path(__file__).parents[3]
MODEL = "llama-3-8b"
MISSING = "/models/llama-3-8b/READY is missing: the model's files are not verified"


@pytest.fixture(scope="module")
def workspace():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        yield open_workspace("local")


@pytest.fixture
def reason(workspace):
    """Why the model has no replica."""

    def look(jobs=(), deployments=(), pods=()):
        answers: dict[str, Any] = {"jobs": jobs, "deployments": deployments, "pods": pods}
        state = read_state(
            workspace.settings, contract_of(workspace.settings), lambda path: {"items": list(answers.get(path.rpartition("/")[2], ()))}
        )
        return next(row.reason for row in state.models if row.name == MODEL)

    return look


def labelled(component, name, **more):
    labels = {"app.kubernetes.io/component": component, "app.kubernetes.io/instance": MODEL}
    return {"metadata": {"name": name, "labels": labels, **more}}


def preheat(**status):
    return {**labelled("preheat", "p"), "spec": {"template": {"spec": {"containers": []}}}, "status": status}


FAILED = preheat(conditions=[{"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "exit code 3"}])
SERVED = {**labelled("model", MODEL), "status": {"readyReplicas": 2}}


@pytest.mark.parametrize(("job", "words"), [(FAILED, "failed"), (preheat(active=1), "waiting")], ids=["failed", "waiting"])
def test_a_model_without_servers_says_that_it_waits_for_its_files_and_how_they_stand(reason, job, words):
    assert reason([job]) == f"waits for its files: preheat {MODEL} {words}"


def test_a_pod_that_refuses_unverified_files_is_quoted(reason):
    ended = {"terminated": {"exitCode": 1, "message": f"noise\n{MISSING}\n"}}
    refusing = {"name": "verified", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    held = {"name": "server", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"phase": "Pending", "initContainerStatuses": [refusing], "containerStatuses": [held]}
    pod = {**labelled("model", "pod-1"), "spec": {"containers": []}, "status": status}
    assert reason(deployments=[{**SERVED, "status": {}}], pods=[pod]) == f"pod pod-1: container verified ended with exit code 1: {MISSING}"


def test_a_pod_that_kueue_holds_back_says_in_which_queue_it_waits(reason):
    pod = labelled("model", "pod-1")
    pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "serving"
    gated = {"type": "PodScheduled", "status": "False", "message": "Scheduling is blocked due to non-empty scheduling gates"}
    held = {**pod, "spec": {"containers": [], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, "status": {"conditions": [gated]}}
    assert reason(deployments=[{**SERVED, "status": {}}], pods=[held]) == "waits in queue serving for its share of the quota"


@pytest.mark.parametrize(
    ("owner", "words"),
    [({"kind": "Pod", "name": "pod-1"}, "1 more needed"), ({"kind": "LeaderWorkerSet", "name": "wide-group"}, "2 more needed")],
)
def test_what_kueue_does_not_admit_is_told_in_its_words_by_what_waits(workspace, owner, words):
    reserved = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": words}
    waiting = {"metadata": {"ownerReferences": [owner]}, "status": {"conditions": [reserved]}}
    admitted = {"metadata": {"ownerReferences": [owner]}, "status": {"conditions": [{**reserved, "status": "True"}]}}
    answers = {"/apis": {"groups": [{"name": "kueue.x-k8s.io"}]}}
    settings = workspace.settings.model_copy(update={"queues": {"serving": None}})
    told = queue_messages(settings, lambda path: answers.get(path, {"items": [admitted, waiting]}))
    assert told == {(owner["kind"], owner["name"]): words}
    assert queue_messages(settings, lambda path: {"groups": []} if path == "/apis" else pytest.fail("Kueue is not there to be asked")) == {}


@pytest.mark.parametrize(("state", "settled"), [("ready", True), ("collected", True), ("copying", False), ("failed", False)])
def test_a_stack_is_as_wanted_only_once_all_files_are_there(state, settled):
    row = PreheatRow(name=MODEL, share="shared", round=1, state=state, detail="")
    assert StackState(pools=(), models=(), stores=(), consumers=(), preheats=(row,)).settled is settled
