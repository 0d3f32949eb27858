"""A destroy that did not finish is recognized by the state or the history that Pulumi 3.255 leaves,
and its dead lock is cancelled.
"""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime

import pytest

from inferplan.updating import pulumi_stack
from inferplan.workspace import project

SERVICE = {
    "urn": "urn:pulumi:chat::inferplan::kubernetes:core/v1:Service::gateway",
    "type": "kubernetes:core/v1:Service",
    "custom": True,
}
PROVIDER = {
    "urn": "urn:pulumi:chat::inferplan::pulumi:providers:kubernetes::c",
    "type": "pulumi:providers:kubernetes",
    "custom": True,
}


def left(monkeypatch, *, history=(), pending=(), declared=(SERVICE["urn"],)):
    monkeypatch.setattr(
        pulumi_stack, "answer", lambda _arguments, _environment: json.dumps(list(history))
    )
    deployment = {"resources": [PROVIDER, SERVICE], "pending_operations": list(pending)}
    return pulumi_stack._left_by_destroy("chat", deployment, set(declared), {})


def test_a_killed_destroy_has_pending_deletions_of_declared_resources(monkeypatch):
    assert left(monkeypatch, pending=[{"type": "deleting", "resource": SERVICE}]) == 1


@pytest.mark.parametrize("result", ["failed", "in-progress"])
def test_an_interrupted_destroy_is_the_last_entry_of_the_history(monkeypatch, result):
    assert left(monkeypatch, history=[{"kind": "destroy", "result": result}]) == 1


def test_updates_and_finished_destroys_left_nothing(monkeypatch):
    assert left(monkeypatch) == 0
    assert left(monkeypatch, history=[{"kind": "destroy", "result": "succeeded"}]) == 0
    assert left(monkeypatch, history=[{"kind": "update", "result": "failed"}]) == 0
    assert left(monkeypatch, pending=[{"type": "creating", "resource": SERVICE}]) == 0
    assert left(monkeypatch, pending=[{"type": "deleting", "resource": SERVICE}], declared=()) == 0


@pytest.mark.parametrize(
    ("pid", "host", "cancels"), [(2**22 + 5, "", True), (0, "", False), (1, "build-7", False)]
)
def test_only_the_lock_of_a_process_that_ended_is_cancelled(
    tmp_path, monkeypatch, pid, host, cancels
):
    # The folder has the name of the project, which in a repository of one's own is not inferplan.
    (tmp_path / "Pulumi.yaml").write_text("name: shop\nruntime: python\n")
    monkeypatch.setattr(project, "SELECTION", project.Selection())
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".pulumi" / "locks" / "organization" / "shop" / "chat"
    folder.mkdir(parents=True)
    lock = {
        "pid": pid or os.getpid(),
        "username": "ops",
        "hostname": host or socket.gethostname(),
        "timestamp": datetime.now(UTC).isoformat(),
    }
    (folder / "5f6c.json").write_text(json.dumps(lock))
    asked = []
    monkeypatch.setattr(
        pulumi_stack, "answer", lambda arguments, _environment: asked.append(arguments) or ""
    )
    cancelled = pulumi_stack.cancel_dead_locks("chat", {"PULUMI_BACKEND_URL": tmp_path.as_uri()})
    assert (len(cancelled) == 1, asked) == (
        cancels,
        [["cancel", "--yes", "chat"]] if cancels else [],
    )
