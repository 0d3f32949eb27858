"""What holds at any moment of any preheat, whatever fails: docs/preheat-invariants.md, as assertions."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.handles import ObjectStore, VolumeClaim, WebStore
from components.preheat.payload.file_checks import wanted
from components.preheat.payload.source import parse_sums

from .rig import MODEL, Job, Outcome

TRY_AGAIN = (4, 5, 6, 143)
CHANGE_SOMETHING = (2, 3)
KILLED = -9

LISTS_OF_A_SOURCE = ("SHA256SUMS", "READY", "READY.sizes")

published: defaultdict[str, list[Mapping[str, bytes]]] = defaultdict(list)
"""Every version of each source that the running test has published so far, by the address of the model's directory."""


def publish(address: str, files: Mapping[str, bytes], *, whole: bool = False) -> None:
    """Record a version of a source: `files` alone if they are the `whole` of it, else over those of the version before."""
    earlier = {} if whole or not published[address] else published[address][-1]
    published[address].append({**earlier, **files})


def address_of(job: Job) -> str:
    """The address under which the source of a Job is published, "" where its versions are not recorded."""
    path = job.weights.get("path", MODEL)
    match job.source:
        case ObjectStore(bucket=bucket, prefix=prefix):
            return f"{bucket}/{prefix}/{path}"
        case WebStore(url=url):
            return f"{url}/{path}"
        case VolumeClaim() if "/source" in job.mounts:
            return str(job.mounts["/source"] / path)
    return ""


def requested(job: Job, version: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a version that a Job asks for."""
    globs = job.preheat.get("include", ()), job.preheat.get("exclude", ())
    names = job.weights.get("files") or version
    if isinstance(job.source, WebStore) and "SHA256SUMS" in version and names is version:
        names = parse_sums(version["SHA256SUMS"].decode())
    return {path: data for path, data in version.items() if path in names and path not in LISTS_OF_A_SOURCE and wanted(path, *globs)}


def check_ready(job: Job) -> None:
    """READY, if there, names exactly the files below it, with their bytes; they are one recorded version, if there is any."""
    if not job.ready:
        return
    files = {path: data for path, data in job.files().items() if not path.startswith(".nfs")}
    named = {each["path"]: each["sha256"] for each in json.loads((job.directory / "READY").read_text())["files"]}
    assert named == {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}, f"READY names other files: {job.directory}"
    versions = [requested(job, version) for version in published.get(address_of(job), ())]
    assert not versions or files in versions, f"READY stands over no version of {address_of(job)}: {sorted(files)}"


@dataclass
class Invariants:
    """What was seen of one directory so far. `versions` are those that the source has had."""

    versions: list[Mapping[str, bytes]]
    good: Mapping[str, bytes] | None = field(default=None)

    def check(self, job: Job, about: str) -> None:
        """READY stands over one version of the source, and a copy that was READY and right stays."""
        if job.ready:
            files = job.files()
            assert files in self.versions, f"READY stands over files of no version of the source: {sorted(files)}; {about}"
            assert self.good in (None, files), f"a good copy was replaced although nobody asked for it; {about}"
            self.good = files
        assert self.good is None or job.ready, f"a good copy lost its READY; {about}"

    def check_end(self, outcome: Outcome, about: str, *, allowed: Sequence[int] = (0, KILLED, *TRY_AGAIN)) -> None:
        """Every end says why, and its exit code says what to do."""
        assert outcome.code in allowed, f"exit code {outcome.code}; {about}: {outcome.output}"
        assert "Traceback" not in outcome.output, f"{about}: {outcome.output}"
        assert outcome.code in (0, KILLED) or "; " in outcome.output or "stopped as asked" in outcome.output, f"{about}: {outcome.output}"
