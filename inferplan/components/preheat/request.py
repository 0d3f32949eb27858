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

from inferplan.components.naming import content_key
from inferplan.components.preheat.spec import DEFAULT_HUB_IMAGE, DEFAULT_IMAGE, PreheatSpec
from inferplan.components.sources import ModelSource, VolumeClaim
from inferplan.components.stores import WeightsSpec
from inferplan.kube.quantity import bytes_of

if TYPE_CHECKING:
    from inferplan.components.kubernetes import core

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


def request_of(
    name: str, weights: WeightsSpec, preheat: PreheatSpec, *, source: ModelSource, target: str
) -> dict[str, Any]:
    """The payload's request for model `name`, without credentials.

    `directory` is that of these files on the share: model, content key and round, so that no file
    is ever overwritten.
    """
    revision = weights.revision
    key = content_key(
        source.origin_of(weights.path),
        revision or "",
        *preheat.include,
        "\x01",
        *preheat.exclude,
        *((json.dumps(weights.files, sort_keys=True),) if weights.files else ()),
    )
    optional = {
        "revision": revision,
        "include": list(preheat.include),
        "exclude": list(preheat.exclude),
        "allow_pickle": list(preheat.allow_pickle),
        "strict": preheat.strict,
        "files": {path: digest or "" for path, digest in weights.files.items()},
        "mount": None,
        "endpoint": None,
        **source.request,
    }
    return {
        "kind": source.reader,
        "root": source.root(weights.path),
        "target": target,
        "directory": f"{weights.path.rpartition('/')[2]}/{key}-r{preheat.round}",
        "job": name,
        "keep": preheat.keep,
        **{field: value for field, value in optional.items() if value},
    }


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
    return preheat.image or (DEFAULT_HUB_IMAGE if source.needs_hub_client else DEFAULT_IMAGE)


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


def _instructions(source: str) -> str:
    """The source without docstrings, comments and blank lines; the rest of each line stays as it
    is.
    """
    text = _WORDS.sub(lambda match: match["kept"] or match["value"] or "", source)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
