"""Compares one live object with one declared object, without a cluster."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.updating.drift.cluster import ComparedCluster, DryRun
from inferplan.updating.drift.drift import Drift, drift
from inferplan.updating.drift.finding import Words, document, lines, notes_before_update
from inferplan.workspace.live import LiveCluster, ObjectKey

WORDS = Words(command="inferplan up x", file="Pulumi.x.yaml", kubectl="kubectl")
BY_HAND = {"manager": "kubectl-edit", "operation": "Update"}


def manifest(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "a", "namespace": "x"},
        **fields,
    }


def pod(**container: Any) -> dict[str, Any]:
    return manifest(
        "apps/v1",
        "Deployment",
        spec={"template": {"spec": {"containers": [{"name": "server", **container}]}}},
    )


def answered(_path: str, body: Mapping[str, Any], _manager: str) -> dict[str, Any]:
    return dict(body)


def compared(
    monkeypatch: pytest.MonkeyPatch,
    live: dict[str, Any],
    ours: dict[str, Any],
    written: Any = None,
    dry_run: DryRun = answered,
) -> Drift:
    """The differences of one object; `written` is what a person wrote, in the server's notation."""
    live = copy.deepcopy(live)
    live["metadata"]["managedFields"] = [
        {**BY_HAND, "fieldsV1": written or {"f:metadata": {"f:labels": {"f:by-hand": {}}}}}
    ]

    def get(path: str) -> dict[str, Any]:
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": "apps/v1"}]}]}
        if path in ("/apis/apps/v1", "/api/v1"):
            return {
                "resources": [
                    {"name": f"{ours['kind'].lower()}s", "kind": ours["kind"], "namespaced": True}
                ]
            }
        return {"items": [live]}

    registration = SimpleNamespace(inputs=ours, options=SimpleNamespace(ignore_changes=()))
    monkeypatch.setattr(
        "inferplan.updating.drift.drift.registered_objects",
        lambda *_: [(registration, key_of(ours))],
    )
    monkeypatch.setattr("inferplan.updating.drift.drift._clouds", lambda _: ())
    cluster = ComparedCluster(live=LiveCluster(get), dry_run=dry_run, kubectl="kubectl")
    return drift(SimpleNamespace(stack="x"), "x", cluster, secrets_known=True)  # type: ignore[arg-type] # its name is all that is read


def key_of(ours: dict[str, Any]) -> ObjectKey:
    return ObjectKey(ours["apiVersion"], ours["kind"], "x", "a")


def texts(result: Drift) -> str:
    return "\n".join(
        [
            *lines(result, WORDS),
            *notes_before_update(result, "Pulumi.x.yaml"),
            json.dumps(document(result, WORDS)),
        ]
    )
