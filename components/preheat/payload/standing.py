"""Whether a directory is READY as it was asked for: by its manifest, against the request and against the files there are.

It reads and never changes anything. Only what is certain counts as wrong: a share that fails to read raises instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import PreheatError
from .manifest import Manifest, check, read
from .request import Request


@dataclass(frozen=True)
class Standing:
    """What a directory is worth: `manifest` if it is READY as asked for, otherwise `problems`."""

    manifest: Manifest | None = None
    problems: tuple[str, ...] = ()
    wrong: bool = False
    """Whether its READY file stands over other bytes than were asked for, and not only over a file too many or an unreadable text."""


def standing(request: Request, source: str | None) -> Standing:
    """How the directory of `request` stands. Raises OSError when the share fails.

    `source` is what the source calls itself; None where it is looked at under another name than the Job's.
    """
    if not request.final.is_dir():
        return Standing()
    try:
        manifest = read(request.final)
    except PreheatError as unreadable:
        return Standing(problems=(str(unreadable),))
    if manifest is None:
        return Standing()
    asked = {"content": request.content, "revision": request.revision, "source": source}
    other = [
        f"READY is of {name} {getattr(manifest, name)!r}, and {value!r} is asked for"
        for name, value in asked.items()
        if getattr(manifest, name) != value and (name, value) != ("source", None)
    ]
    if other:
        return Standing(problems=tuple(other), wrong=True)
    findings = check(request.final, manifest, every_byte=False)
    if not findings:
        return Standing(manifest)
    return Standing(problems=tuple(map(str, findings)), wrong=not all(finding.extra for finding in findings))
