"""Reads the model servers of a live cluster for an import; nothing there is changed."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from inferplan.commands.import_stack.import_stack import Imported, import_stack
from inferplan.commands.import_stack.recognition import is_server
from inferplan.errors import RequestError
from inferplan.tables import table
from inferplan.workspace.kubectl import Kubectl

_TABLE = table("commands/import_stack/servers.toml")["cluster"]


def import_cluster(context: str, *, accelerator: str) -> Imported:
    """A stack file for the servers behind a context of the user's kubeconfig that no controller
    made. Raises RequestError, OperationError.
    """
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
        for body in _objects(Kubectl(context)):
            metadata = body["metadata"]
            name = f"{body['kind']}.{metadata['namespace']}.{metadata['name']}.yaml"
            (Path(folder) / name).write_text(yaml.safe_dump(body, sort_keys=False))
        try:
            imported = import_stack(Path(folder), accelerator=accelerator)
        except RequestError as error:
            words = str(error).replace(f"{folder}/", "").replace(folder, f"context {context}")
            raise RequestError(words) from error
        groups = {
            group: tuple(each.replace(f"{folder}/", "") for each in lines)
            for group, lines in imported.groups.items()
        }
        shrinks = tuple(each.replace(f"{folder}/", "") for each in imported.shrinks)
    return replace(imported, groups=groups, shrinks=shrinks)


def _objects(cluster: Kubectl) -> Iterator[dict[str, Any]]:
    """The objects that nothing but people owns, without what the API server adds."""
    served = {each["name"] for each in cluster.get("/apis")["groups"]}
    for kind, path in _TABLE["paths"].items():
        group, version, _ = path.split("/")
        items = cluster.get(f"/apis/{path}")["items"] if group in served else ()
        for each in items:
            metadata = each["metadata"]
            body = {
                "apiVersion": f"{group}/{version}",
                "kind": kind,
                "metadata": {name: metadata[name] for name in ("name", "namespace")},
                "spec": _declared(each["spec"]),
            }
            if not metadata.get("ownerReferences") and is_server(kind, body):
                yield body


def _declared(value: Any) -> Any:
    """`value` without the defaults of the API server."""
    if isinstance(value, list):
        return [_declared(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _declared(each) for key, each in value.items() if _TABLE["defaults"].get(key) != each
    }
