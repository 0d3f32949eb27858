"""The Job of a preheat as far as its specs decide it: its directory, the payload's request, its
deadline, its image and its name.

The name has a key of everything that the Job's pods read, because a Job's pod template cannot be
changed: a changed key replaces the Job. The wording of the payload's docstrings and comments
changes no key. Nothing here registers a resource.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inferplan.components.handles import HubStore, ModelSource, ObjectStore, VolumeClaim, WebStore
from inferplan.components.naming import content_key
from inferplan.components.preheat.spec import DEFAULT_HUB_IMAGE, DEFAULT_IMAGE, PreheatSpec
from inferplan.components.stores import WeightsSpec
from inferplan.kube.quantity import bytes_of

if TYPE_CHECKING:
    from inferplan.components.kubernetes import core

SOURCE = "/source"
_SLOWEST_BYTES_PER_SECOND = 50 << 20
_SHORTEST_SECONDS = 1800
_UNKNOWN_SIZE_SECONDS = 6 * 3600
_START_SECONDS = 600
# Docstrings (the triple-quoted text that starts a file or follows a colon at the end of a line),
# comments, and other texts, which are values. Python's own parser took a tenth of a plan (2026-11).
_WORDS = re.compile(
    r'''(?P<kept>\A|:)(?:[ \t]*(?:\#[^\n]*)?\n)*[ \t]*"""(?:\\.|[^\\])*?"""|\#[^\n]*'''
    r"""|(?P<value>("{3}|'{3})(?:\\.|[^\\])*?\3|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)


def cache_path(weights: WeightsSpec, preheat: PreheatSpec, source: ModelSource) -> str:
    """The directory of these files on the share: model, content key and round, so that no file is
    ever overwritten.
    """
    names = (json.dumps(weights.files, sort_keys=True),) if weights.files else ()
    _kind, _root, origin = _location(source, weights)
    key = content_key(
        origin, weights.revision or "", *preheat.include, "\x01", *preheat.exclude, *names
    )
    return f"{weights.path.rpartition('/')[2]}/{key}-r{preheat.round}"


def request_of(
    name: str, weights: WeightsSpec, preheat: PreheatSpec, *, source: ModelSource, target: str
) -> dict[str, Any]:
    """The payload's request for model `name`, without credentials."""
    kind, root, _origin = _location(source, weights)
    request: dict[str, Any] = {
        "kind": kind,
        "root": root,
        "target": target,
        "directory": cache_path(weights, preheat, source),
        "job": name,
        "keep": preheat.keep,
    }
    optional = {
        "revision": weights.revision,
        "include": list(preheat.include),
        "exclude": list(preheat.exclude),
        "allow_pickle": list(preheat.allow_pickle),
        "files": {path: digest or "" for path, digest in weights.files.items()},
        "mount": SOURCE if isinstance(source, VolumeClaim) else None,
        "endpoint": source.endpoint if isinstance(source, HubStore) else None,
    }
    return request | {field: value for field, value in optional.items() if value}


def deadline_seconds(weights: WeightsSpec, preheat: PreheatSpec) -> int:
    """The seconds after which the Job fails, retries included."""
    if preheat.timeout_seconds is not None:
        return preheat.timeout_seconds
    if weights.size is None:
        return _UNKNOWN_SIZE_SECONDS
    # Twice: once for the transfer, once for reading everything back.
    return max(
        _SHORTEST_SECONDS, _START_SECONDS + 2 * bytes_of(weights.size) // _SLOWEST_BYTES_PER_SECOND
    )


def image_of(preheat: PreheatSpec, source: ModelSource) -> str:
    return preheat.image or (DEFAULT_HUB_IMAGE if isinstance(source, HubStore) else DEFAULT_IMAGE)


def job_key(pod: core.PodSpecArgsDict, target: VolumeClaim) -> str:
    """A key of the Job's pods: of everything that Kubernetes cannot change in a Job, but not of its
    deadline or time to live.
    """
    return content_key(
        json.dumps([pod, None if target.nodes is None else target.nodes.nodes], sort_keys=True)
    )


def code_key(files: Mapping[str, str]) -> str:
    """A key of Python files without docstrings, comments and blank lines."""
    return content_key(
        *(part for path, text in sorted(files.items()) for part in (path, _instructions(text)))
    )


def _location(source: ModelSource, weights: WeightsSpec) -> tuple[str, str, str]:
    """The payload's name for this kind of source, the root of the model's files in it, and the
    origin of the files for their key.
    """
    match source:
        case VolumeClaim():
            return (
                "local",
                f"{SOURCE}/{weights.path}",
                f"{source.origin or source.name}/{weights.path}",
            )
        case ObjectStore():
            root = "source:" + "/".join(
                part for part in (source.bucket, source.prefix.strip("/"), weights.path) if part
            )
            return "remote", root, f"s3:{source.endpoint or ''}/{root}"
        case WebStore():
            return "http", f"{source.url}/{weights.path}", f"{source.url}/{weights.path}"
        case HubStore():
            return "hub", weights.path, f"{source.endpoint}/{weights.path}"


def _instructions(source: str) -> str:
    """The source without docstrings, comments and blank lines; the rest of each line stays as it
    is.
    """
    text = _WORDS.sub(lambda match: match["kept"] or match["value"] or "", source)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
