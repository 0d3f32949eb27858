"""Namespaces of a stack in Pulumi's state: Pulumi is told to leave them, and they are deleted only
when nothing is in them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.errors import OperationError
from inferplan.updating import containers, pulumi_cli
from inferplan.updating.containers import containers_of
from inferplan.workspace.live import LiveCluster, ObjectKey

HOME = ObjectKey("v1", "Namespace", "", "models")
KINDS = [
    ("namespaces", "Namespace", False),
    ("configmaps", "ConfigMap", True),
    ("persistentvolumeclaims", "PersistentVolumeClaim", True),
]


def resource(key: ObjectKey, **more: Any) -> dict[str, Any]:
    metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    inputs = {"apiVersion": key.api_version, "kind": key.kind, "metadata": metadata}
    name = f"{key.namespace}/{key.name}".lstrip("/")
    return {
        "urn": f"urn:pulumi:s::p::kubernetes:core/v1:{key.kind}::{key.name}",
        "type": f"kubernetes:core/v1:{key.kind}",
        "id": name,
        "inputs": inputs,
        **more,
    }


class Fake:
    """A cluster with `live` objects, and a CLI whose state has `resources`."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        live: list[ObjectKey],
        resources: list[dict[str, Any]],
    ) -> None:
        self.live, self.state, self.imported, self.labels = (
            live,
            {"deployment": {"resources": resources}},
            {},
            {},
        )
        monkeypatch.setattr(containers, "answer", self.answer)
        monkeypatch.setattr(pulumi_cli, "answer", self.answer)
        monkeypatch.setattr(containers, "_POLL_SECONDS", 0)

    def answer(self, arguments: list[str], _environment: object) -> str:
        if arguments[1] == "import":
            self.imported = json.loads(Path(arguments[-1]).read_text())
        return json.dumps(self.state)

    def get(self, path: str) -> Any:
        path = path.partition("?")[0]
        if path == "/apis":
            return {"groups": []}
        if path == "/api/v1":
            return {
                "resources": [
                    {
                        "name": plural,
                        "kind": kind,
                        "namespaced": inside,
                        "verbs": ["list", "delete"],
                    }
                    for plural, kind, inside in KINDS
                ]
            }
        plural = path.rpartition("/")[2]
        kind = {each[0]: each[1] for each in KINDS}[plural]
        items = [
            each
            for each in self.live
            if each.kind == kind
            and (not each.namespace or f"/namespaces/{each.namespace}/" in path)
        ]
        return {
            "items": [
                {
                    "metadata": {
                        "name": each.name,
                        "namespace": each.namespace,
                        "uid": str(each),
                        "labels": self.labels,
                    }
                }
                for each in items
            ]
        }

    def delete(self, path: str) -> None:
        assert path == "/api/v1/namespaces/models"
        self.live.clear()

    def containers(self, *, kept: bool = False, known: bool = True) -> containers.Containers:
        return containers_of(
            "s",
            {},
            LiveCluster(self.get) if known else None,
            self.delete if known else None,
            kept=kept,
        )


def map_in(name: str) -> ObjectKey:
    return ObjectKey("v1", "ConfigMap", "models", name)


def test_a_state_of_an_earlier_version_gets_the_mark_by_which_pulumi_leaves_the_namespace(
    monkeypatch,
):
    fake = Fake(monkeypatch, [HOME], [resource(HOME), resource(map_in("settings"))])
    held = fake.containers()
    held.check(held.leaving(), "inferplan down s")
    held.protect(held.leaving())
    assert [each.get("retainOnDelete") for each in fake.imported["deployment"]["resources"]] == [
        True,
        None,
    ]


def test_objects_of_others_stop_the_command_unless_the_namespace_is_kept(monkeypatch):
    fake = Fake(
        monkeypatch,
        [HOME, map_in("settings"), map_in("theirs")],
        [resource(HOME), resource(map_in("settings"))],
    )
    with pytest.raises(OperationError, match="ConfigMap theirs") as failed:
        fake.containers().check([HOME], "inferplan down s")
    assert "inferplan down s --keep-namespace" in str(failed.value)
    assert "settings" not in str(failed.value)
    fake.containers(kept=True).check([HOME], "inferplan down s")


def test_what_the_stack_only_reads_is_not_its_own(monkeypatch):
    fake = Fake(
        monkeypatch,
        [HOME, map_in("read")],
        [resource(HOME), resource(map_in("read"), external=True)],
    )
    with pytest.raises(OperationError, match="ConfigMap read"):
        fake.containers().check([HOME], "inferplan down s")


@pytest.mark.parametrize(
    ("left", "options", "text", "stays"),
    [
        ([], {}, "Namespace models is deleted", False),
        ([map_in("theirs")], {}, "ConfigMap theirs\nNamespace models stays with them", True),
        ([map_in("settings")], {}, "ConfigMap settings\nNamespace models stays with them", True),
        ([], {"kept": True}, "Namespace models stays with everything in it", True),
        ([], {"known": False}, "Namespace models stays: without kubectl and a context", True),
    ],
)
def test_an_empty_namespace_is_deleted_after_the_destroy_and_any_other_stays(
    monkeypatch, left, options, text, stays
):
    fake = Fake(monkeypatch, [HOME, *left], [resource(HOME), resource(map_in("settings"))])
    held, said = fake.containers(**options), []
    leaving = held.leaving()
    fake.state = {"deployment": {"resources": []}}
    held.remove(leaving, said.append)
    assert text in "\n".join(said)
    assert (HOME in fake.live) == stays


def test_a_namespace_that_is_still_in_the_state_stays(monkeypatch):
    fake = Fake(monkeypatch, [HOME], [resource(HOME)])
    held = fake.containers()
    held.remove(held.leaving(), pytest.fail)
    assert HOME in fake.live


def test_the_empty_namespace_that_pulumi_destroy_left_is_deleted_and_that_of_others_is_not(
    monkeypatch,
):
    fake = Fake(monkeypatch, [HOME], [])
    with pytest.raises(OperationError, match="inferplan:adoptNamespace: true"):
        fake.containers().remove_leftovers([HOME], print)
    fake.labels = {"app.kubernetes.io/managed-by": "inferplan"}
    fake.live.append(map_in("theirs"))
    with pytest.raises(OperationError, match="ConfigMap theirs"):
        fake.containers().remove_leftovers([HOME], print)
    fake.live.pop()
    fake.containers().remove_leftovers([HOME], print)
    assert fake.live == []


def test_an_error_of_the_cli_other_than_an_unknown_stack_is_not_taken_for_an_empty_state(
    monkeypatch,
):
    def answer(*_: object) -> str:
        raise OperationError("pulumi stack export failed: passphrase must be set")

    monkeypatch.setattr(pulumi_cli, "answer", answer)
    with pytest.raises(OperationError, match="passphrase"):
        containers_of("s", {}, None, None, kept=False)
