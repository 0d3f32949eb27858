"""Applying what `render` wrote gives the objects that `up` gives."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.commands.render.manifests import WAVE
from inferplan.progress import plain
from inferplan.rehearsal.apply.journal import MANAGER
from inferplan.rehearsal.cluster import start
from tests.rehearsal.commands import inferplan, up

# On machines with root, `make test` applies a rendered directory to the real node.
pytestmark = [pytest.mark.cluster, pytest.mark.full]


def _projection(live, document):
    """The values of `live` at the places that `document` sets."""
    if isinstance(document, dict) and isinstance(live, dict):
        waves = {
            key
            for key, value in document.items()
            if key == WAVE or (key == "annotations" and set(value) == {WAVE})
        }
        return {
            key: _projection(live.get(key), value)
            for key, value in document.items()
            if key not in waves
        }
    if isinstance(document, list) and isinstance(live, list):
        return [len(live), *(_projection(*pair) for pair in zip(live, document, strict=False))]
    return live


def _contents(api, documents):
    """By kind and name: the values of the live object where the document sets one, and the fields
    that were applied.
    """
    found = {}
    for each in documents:
        metadata = each["metadata"]
        live = api.get(
            api.resource(each["apiVersion"], each["kind"]).path(
                metadata.get("namespace", ""), metadata["name"]
            )
        )
        applied = [
            entry["fieldsV1"]
            for entry in live["metadata"]["managedFields"]
            if (entry["manager"], entry["operation"]) == (MANAGER, "Apply")
        ]
        for fields in applied:
            annotations = fields.get("f:metadata", {}).get("f:annotations", {})
            annotations.pop(f"f:{WAVE}", None)
            if annotations in ({}, {".": {}}):
                fields.get("f:metadata", {}).pop("f:annotations", None)
            if fields.get("f:metadata") == {}:
                del fields["f:metadata"]
        found[each["kind"], metadata["name"]] = (_projection(live, each), applied)
    return found


def test_the_rendered_directory_gives_the_objects_that_up_gives(local_state, tmp_path, monkeypatch):
    state = local_state
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(state))
    done = inferplan(state, "render", "local", "--to", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    names = yaml.safe_load((tmp_path / "out" / "kustomization.yaml").read_text())["resources"]
    documents: list[dict[str, Any]] = [
        yaml.safe_load(Path(tmp_path, "out", name).read_text()) for name in names
    ]
    with contextlib.closing(start("local", plain).api()) as api:
        before = _contents(api, documents)
        secrets = api.resource("v1", "Secret")
        own = [
            each
            for each in api.get(secrets.path("inference"))["items"]
            if each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "inferplan"
        ]
        assert len(own) == 5
        assert inferplan(state, "down", "local", "--engine", "rehearsal").returncode == 0
    with contextlib.closing(start("local", plain).api()) as api:
        existing: list[dict[str, Any]] = [
            {**each, "apiVersion": "v1", "kind": "Secret"} for each in own
        ]
        for each in [documents[0], *existing, *documents]:
            metadata = {
                name: value
                for name, value in each["metadata"].items()
                if name in ("name", "namespace", "labels", "annotations")
            }
            path = api.resource(each["apiVersion"], each["kind"]).path(
                metadata.get("namespace", ""), metadata["name"]
            )
            api.apply(path, {**each, "metadata": metadata}, manager=MANAGER, force=True)
            if each["kind"] == "Node":
                status = {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": metadata["name"]},
                    "status": each["status"],
                }
                api.apply(f"{path}/status", status, manager=MANAGER, force=True)
        after = _contents(api, documents)
    assert len(before) == len(documents) > 30
    for key in before:
        assert after[key] == before[key], key
    # For the files that share the stack: an update adopts what was applied.
    up(state)
