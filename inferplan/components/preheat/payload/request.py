"""The Job's request, parsed from its environment. It holds no credentials: rclone reads those from the environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .errors import Exit, PreheatError

VARIABLE = "PREHEAT_REQUEST"
_KINDS = ("remote", "local", "http", "hub")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One model to make READY. Sizes in bytes, times in seconds; the names are those of the JSON document."""

    kind: str
    """remote: an rclone remote such as an S3 bucket; local: a mounted directory; http: a base URL; hub: a Hugging Face repository."""
    root: str
    """The root of the model's files: remote:bucket/path, a directory, a URL, or a repository's name."""
    target: Path
    """The mount point of the share."""
    directory: str
    """The directory below the share that becomes READY, for instance llama-3-8b/0123456789-r0."""
    job: str
    """Names the status file."""
    user: str = ""
    """The reader of the directory; its round stays for as long as it is the reader's latest."""
    revision: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_pickle: tuple[str, ...] = ()
    strict: bool = False
    """True to reject files of unknown kinds, unless `allow_pickle` lists them."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files of the model, each with its sha256 or ""; only read for kind http."""
    keep: int = 2
    streams: int = 4
    segment_bytes: int = 512 << 20
    retries: int = 8
    backoff_seconds: float = 1.0
    stall_seconds: float = 60.0
    lease_seconds: float = 45.0
    report_seconds: float = 5.0
    mount: str = ""
    """The directory that links of a mounted source must not leave; "" for no limit. Only read for kind local."""
    endpoint: str = "https://huggingface.co"
    """The hub's address; only read for kind hub."""

    @property
    def content(self) -> str:
        """The name that all rounds of the same content share: llama-3-8b.0123456789."""
        return self.directory.rpartition("-r")[0].replace("/", ".")

    @property
    def final(self) -> Path:
        return self.target / self.directory

    @property
    def private(self) -> Path:
        return self.target / ".inferplan"


def parse(text: str | None, namespace: str) -> Request:
    """The request in a JSON document, for the Job's pod in `namespace`.

    Raises PreheatError(BAD_REQUEST) for a missing or malformed document, and for a missing or unknown field.
    """
    if not text:
        raise _bad(f"the variable {VARIABLE} is empty", "run this program from the Job that inferplan makes")
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise _bad(f"{VARIABLE} is not JSON ({error})", "give one JSON object") from None
    if not isinstance(document, dict):
        raise _bad(f"{VARIABLE} is a JSON {type(document).__name__}", "give one JSON object")
    names = {f.name for f in fields(Request)}
    unknown = sorted(set(document) - names)
    missing = sorted({"kind", "root", "target", "directory", "job"} - set(document))
    if unknown or missing:
        raise _bad(f"{VARIABLE} lacks {missing} and has the unknown fields {unknown}", f"known fields are {', '.join(sorted(names))}")
    if document["kind"] not in _KINDS:
        raise _bad(f"kind is {document['kind']!r}", f"write one of {', '.join(_KINDS)}")
    parts = str(document["directory"]).split("/")
    if any(part in ("", ".", "..") or part.startswith(".inferplan") for part in parts) or not re.fullmatch(r".+-r[0-9]+", parts[-1]):
        raise _bad(f"directory is {document['directory']!r}", "write a relative path that ends in <key>-r<round>")
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
    values.setdefault("user", f"{namespace}.{values['job']}")
    values["target"] = Path(values["target"])
    return Request(**values)


def _bad(problem: str, remedy: str) -> PreheatError:
    return PreheatError(Exit.BAD_REQUEST, problem, remedy)
