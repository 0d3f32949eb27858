"""Why a model has no replica, and when a stack is as wanted, told from what the cluster says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferplan.status.jobs import PreheatRow
from inferplan.status.models import queue_messages
from inferplan.status.status import StackState, read_state
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import open_workspace

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
            workspace.settings,
            contract_of(workspace.settings),
            lambda path: {"items": list(answers.get(path.rpartition("/")[2], ()))},
        )
        return next(row.reason for row in state.models if row.name == MODEL)

    return look


def labelled(component, name, **more):
    labels = {"app.kubernetes.io/component": component, "app.kubernetes.io/instance": MODEL}
    return {"metadata": {"name": name, "labels": labels, **more}}


def preheat(**status):
    return {
        **labelled("preheat", "p"),
        "spec": {"template": {"spec": {"containers": []}}},
        "status": status,
    }


FAILED = preheat(
    conditions=[
        {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "exit code 3"}
    ]
)
SERVED = {**labelled("model", MODEL), "status": {"readyReplicas": 2}}


@pytest.mark.parametrize(
    ("job", "words"),
    [(FAILED, "failed"), (preheat(active=1), "waiting")],
    ids=["failed", "waiting"],
)
def test_a_model_without_servers_says_that_it_waits_for_its_files_and_how_they_stand(
    reason, job, words
):
    assert reason([job]) == f"waits for its files: preheat {MODEL} {words}"


def test_the_message_of_a_pod_that_rejects_unverified_files_is_quoted(reason):
    ended = {"terminated": {"exitCode": 1, "message": f"noise\n{MISSING}\n"}}
    refusing = {
        "name": "verified",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": ended,
    }
    held = {"name": "server", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"phase": "Pending", "initContainerStatuses": [refusing], "containerStatuses": [held]}
    pod = {**labelled("model", "pod-1"), "spec": {"containers": []}, "status": status}
    assert (
        reason(deployments=[{**SERVED, "status": {}}], pods=[pod])
        == f"pod pod-1: container verified ended with exit code 1: {MISSING}"
    )


def test_a_pod_that_kueue_holds_back_says_in_which_queue_it_waits(reason):
    pod = labelled("model", "pod-1")
    pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "serving"
    gated = {
        "type": "PodScheduled",
        "status": "False",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    held = {
        **pod,
        "spec": {"containers": [], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
        "status": {"conditions": [gated]},
    }
    assert (
        reason(deployments=[{**SERVED, "status": {}}], pods=[held])
        == "waits in queue serving for its share of the quota"
    )


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        ({"kind": "Pod", "name": "pod-1"}, "1 more needed"),
        ({"kind": "LeaderWorkerSet", "name": "wide-group"}, "2 more needed"),
    ],
)
def test_workloads_that_kueue_does_not_admit_show_its_message(workspace, owner, words):
    reserved = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": words}
    waiting = {"metadata": {"ownerReferences": [owner]}, "status": {"conditions": [reserved]}}
    admitted = {
        "metadata": {"ownerReferences": [owner]},
        "status": {"conditions": [{**reserved, "status": "True"}]},
    }
    answers = {"/apis": {"groups": [{"name": "kueue.x-k8s.io"}]}}
    settings = workspace.settings.model_copy(update={"queues": {"serving": None}})
    told = queue_messages(settings, lambda path: answers.get(path, {"items": [admitted, waiting]}))
    assert told == {(owner["kind"], owner["name"]): words}
    assert (
        queue_messages(
            settings,
            lambda path: (
                {"groups": []} if path == "/apis" else pytest.fail("Kueue is not there to be asked")
            ),
        )
        == {}
    )


@pytest.mark.parametrize(
    ("state", "settled"),
    [("ready", True), ("collected", True), ("copying", False), ("failed", False)],
)
def test_a_stack_is_as_wanted_only_once_all_files_are_there(state, settled):
    row = PreheatRow(name=MODEL, share="shared", round=1, state=state, detail="")
    assert (
        StackState(pools=(), models=(), stores=(), consumers=(), preheats=(row,)).settled is settled
    )


BUILD = {
    "engine": "tensorrt-llm",
    "build": {"modelFamily": "llama"},
    "weights": {"store": "weights", "path": "m"},
    "preheat": {"into": "shared"},
    "pool": "l40s",
}
NAMES = {"engine-build": "big", "benchmark": "benchmark"}


def one_job(
    component: str, name: str, created: str, *, suspend: bool = False, **status: Any
) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/instance": NAMES[component],
    }
    return {
        "metadata": {"name": name, "creationTimestamp": created, "labels": labels},
        "spec": {"suspend": suspend},
        "status": status,
    }


COMPLETE = [{"type": "Complete", "status": "True"}]


@pytest.fixture
def batch(workspace):
    """The rows of engine builds, benchmarks and queues for a stack with one of each."""
    from inferplan.components.benchmark.spec import BenchmarkSpec
    from inferplan.components.queue.spec import QueueSpec
    from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec

    settings = workspace.settings.model_copy(
        update={
            "models": {"big": TensorrtLlmSpec.model_validate(BUILD)},
            "benchmark": BenchmarkSpec.model_validate(
                {"models": ["a", "b"], "consumer": "chat", "tokenizer": "a"}
            ),
            "queues": {
                "serving": QueueSpec.model_validate({"pools": {"l40s": {"accelerators": 4}}})
            },
        }
    )

    def look(jobs=(), pods=(), queues=None, workloads=()):
        answers: dict[str, Any] = {
            "jobs": jobs,
            "pods": pods,
            "localqueues": queues or (),
            "workloads": workloads,
        }

        def get(path: str) -> dict[str, Any]:
            if path == "/apis":
                return {"groups": [] if queues is None else [{"name": "kueue.x-k8s.io"}]}
            return {"items": list(answers.get(path.rpartition("/")[2], ()))}

        state = read_state(settings, contract_of(settings), get)
        return {row.kind: (row.state, row.message) for row in state.jobs}, state.queues

    return look


def test_engine_builds_and_benchmarks_have_a_row_from_their_newest_job(batch):
    assert batch()[0] == {
        "engine build": ("not applied yet", ""),
        "benchmark": ("not applied yet", ""),
    }
    old = one_job(
        "engine-build",
        "b1",
        "2026-11-01T00:00:00Z",
        conditions=[{"type": "Failed", "status": "True", "reason": "x", "message": "y"}],
    )
    new = one_job(
        "engine-build",
        "b2",
        "2026-11-02T00:00:00Z",
        conditions=COMPLETE,
        completionTime="2026-11-02T01:00:00Z",
    )
    ended = {
        "name": "compare",
        "state": {"terminated": {"message": "table\n1 measurements failed"}},
    }
    pod = {
        "metadata": {"name": "p", "ownerReferences": [{"name": "bench"}]},
        "spec": {"containers": []},
        "status": {"containerStatuses": [ended]},
    }
    failed = one_job(
        "benchmark",
        "bench",
        "2026-11-02T00:00:00Z",
        conditions=[{"type": "Failed", "status": "True"}],
    )
    rows, _ = batch(jobs=[new, old, failed], pods=[pod])
    assert rows == {
        "engine build": ("complete", "completed 2026-11-02T01:00:00Z"),
        "benchmark": ("failed", "1 measurements failed"),
    }


def test_a_build_that_kueue_suspends_waits_in_its_queue(batch):
    reason = {
        "type": "QuotaReserved",
        "status": "False",
        "message": "insufficient quota for nvidia.com/gpu",
    }
    workload = {
        "metadata": {"ownerReferences": [{"kind": "Job", "name": "b1"}]},
        "status": {"conditions": [reason]},
    }
    rows, _ = batch(
        jobs=[one_job("engine-build", "b1", "2026-11-01T00:00:00Z", suspend=True)],
        queues=[],
        workloads=[workload],
    )
    assert rows["engine build"] == (
        "waiting",
        "waits in a queue: insufficient quota for nvidia.com/gpu",
    )


@pytest.mark.parametrize(
    ("queues", "row"),
    [
        (None, ("not applied yet", 0, 0, "")),
        ([{"status": {"conditions": [{"type": "Active", "status": "True", "message": "ok"}], "admittedWorkloads": 2, "pendingWorkloads": 1}}], ("active", 2, 1, "")),
        ([{"status": {"conditions": [{"type": "Active", "status": "False", "message": "Cohort is stopped"}]}}], ("not active", 0, 0, "Cohort is stopped")),
        ([{}], ("not seen by Kueue", 0, 0, "")),
    ],
)  # fmt: skip
def test_a_queue_shows_its_workloads_and_why_it_is_not_active(batch, queues, row):
    named = queues and [{"metadata": {"name": "serving"}, **each} for each in queues]
    [queue] = batch(queues=named)[1]
    assert (queue.name, queue.pools) == ("serving", ("l40s",))
    assert (queue.state, queue.admitted, queue.pending, queue.message) == row
