"""What a preheat Job depends on, as content keys from explicit fields.

A field that a pod does not read, or the wording of the payload's docstrings and comments, changes no key: a changed key replaces the Job.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import tokenize
from collections.abc import Mapping
from typing import Any

from components.handles import CaBundle, HubStore, ModelSource, NodeTarget, ObjectStore, VolumeClaim, WebStore
from components.naming import content_key
from components.preheat.reach import image_of
from components.preheat.spec import PreheatSpec


def job_key(
    request: Mapping[str, Any], code: str, preheat: PreheatSpec, source: ModelSource, target: VolumeClaim, folder: str | None = None
) -> str:
    """A key of everything that the Job's pods are made of, since a Job's pod template cannot be changed.

    What Kubernetes changes in place (deadline, time to live) and what says nothing about the pods (the names of stores,
    their informational capacity) is left out.
    """
    shape = {
        "request": dict(request),
        "code": code,
        "images": [image_of(preheat, source), preheat.rclone_image],
        "amounts": [preheat.cpu, preheat.memory, preheat.run_as_user],
        "source": _source(source),
        "target": target.name,
        "nodes": None if target.nodes is None else _nodes(target.nodes),
    }
    return content_key(json.dumps(shape | ({} if folder is None else {"folder": folder}), sort_keys=True))


def code_key(files: Mapping[str, str]) -> str:
    """A key of what Python files do: their text without docstrings, comments and blank lines."""
    return content_key(*(part for path, text in sorted(files.items()) for part in (path, _instructions(text))))


def _source(source: ModelSource) -> list[Any]:
    """What the pod reads of its source, besides what the request says: the way to it, credentials and CA by name."""
    match source:
        case ObjectStore():
            reader = None if source.identity is None else source.identity.service_account
            return ["s3", source.endpoint, source.region, source.path_style, source.credentials, reader, _ca(source.ca)]
        case WebStore():
            return ["http", source.credentials, _ca(source.ca)]
        case HubStore():
            return ["hub", source.endpoint, source.credentials, _ca(source.ca)]
        case VolumeClaim():
            return ["claim", source.name]


def _ca(bundle: CaBundle | None) -> list[str] | None:
    return None if bundle is None else [bundle.kind, bundle.name, bundle.key]


def _nodes(target: NodeTarget) -> list[Any]:
    return [sorted(target.node_selector.items()), [[each.key, each.value, each.effect] for each in target.taints], target.nodes]


@functools.cache
def _instructions(source: str) -> str:
    """The source without docstrings, comments and blank lines; the rest of each line stays as it is."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            text = node.body[0]
            for row in range(text.lineno, (text.end_lineno or text.lineno) + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())
