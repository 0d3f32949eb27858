"""What a preheat amounts to, computed from specs alone: the directory it fills, the request its payload gets, how long it may take.

Nothing here is registered, so that a plan, a check and a command can all ask the same question.
"""

from __future__ import annotations

import json
from typing import Any, assert_never

from components.handles import HubStore, ModelSource, ObjectStore, VolumeClaim, WebStore
from components.naming import content_key
from components.preheat.spec import PreheatSpec
from components.storage.spec import WeightsSpec
from kube.quantity import bytes_of

SOURCE = "/source"
_SLOWEST_BYTES_PER_SECOND = 50 << 20
_SHORTEST_SECONDS = 1800
_UNKNOWN_SIZE_SECONDS = 6 * 3600
_START_SECONDS = 600


def cache_path(weights: WeightsSpec, preheat: PreheatSpec, source: ModelSource) -> str:
    """The directory on the share that holds these files: model, content key and round, so that nothing is ever overwritten.

    Two models of the same source, revision and globs share one directory.
    """
    named = (json.dumps(weights.files, sort_keys=True),) if weights.files else ()
    key = content_key(_origin(source, weights), weights.revision or "", *preheat.include, "\x01", *preheat.exclude, *named)
    return f"{weights.path.rpartition('/')[2]}/{key}-r{preheat.round}"


def request_of(name: str, weights: WeightsSpec, preheat: PreheatSpec, *, source: ModelSource, target: str) -> dict[str, Any]:
    """The JSON document that the payload of model `name` reads; it holds no credential."""
    request: dict[str, Any] = {
        "kind": kind_of(source),
        "root": _root(source, weights),
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
    """After how many seconds the Job gives up, retries included."""
    if preheat.timeout_seconds is not None:
        return preheat.timeout_seconds
    if weights.size is None:
        return _UNKNOWN_SIZE_SECONDS
    # Twice: once for the transfer, once for reading everything back.
    return max(_SHORTEST_SECONDS, _START_SECONDS + 2 * bytes_of(weights.size) // _SLOWEST_BYTES_PER_SECOND)


def kind_of(source: ModelSource) -> str:
    """What the payload calls a source of this kind."""
    match source:
        case VolumeClaim():
            return "local"
        case ObjectStore():
            return "remote"
        case WebStore():
            return "http"
        case HubStore():
            return "hub"
        case _:
            assert_never(source)


def _origin(source: ModelSource, weights: WeightsSpec) -> str:
    match source:
        case VolumeClaim():
            return f"{source.origin or source.name}/{weights.path}"
        case ObjectStore():
            return f"s3:{source.endpoint or ''}/{_root(source, weights)}"
        case WebStore():
            return _root(source, weights)
        case HubStore():
            return f"{source.endpoint}/{_root(source, weights)}"
        case _:
            assert_never(source)


def _root(source: ModelSource, weights: WeightsSpec) -> str:
    match source:
        case VolumeClaim():
            return f"{SOURCE}/{weights.path}"
        case ObjectStore():
            return "source:" + "/".join(part for part in (source.bucket, source.prefix.strip("/"), weights.path) if part)
        case WebStore():
            return f"{source.url}/{weights.path}"
        case HubStore():
            return weights.path
        case _:
            assert_never(source)
