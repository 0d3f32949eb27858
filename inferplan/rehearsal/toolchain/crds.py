"""CustomResourceDefinitions of the projects that stacks use, from pinned Go modules (`crds.toml`)
or our own in `definitions`.
"""

import hashlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferplan.documents.files import cache_directory, disk_faults, exclusive
from inferplan.errors import ToolchainError
from inferplan.progress import Progress, StepFinished, StepStarted, silent
from inferplan.rehearsal.toolchain.go import Go, find_go, lock_file
from inferplan.rehearsal.toolchain.gobuild import download
from inferplan.tables import table

TABLE = Path(__file__).parent / "crds.toml"
OWN = Path(__file__).parent / "definitions"
_LEAST_GO = (1, 26, 6)  # of Karpenter's module


@dataclass(frozen=True, slots=True)
class CrdSource:
    """The source of the CRDs of some API groups: files of a Go module, whose `sum` is its `h1:`
    hash in go.sum.
    """

    name: str
    groups: tuple[str, ...]
    module: str
    version: str
    sum: str
    paths: tuple[str, ...]

    def digest(self) -> str:
        """SHA-256 over the pin, the name of the directory with the copied files."""
        return hashlib.sha256(
            json.dumps([self.module, self.version, self.sum, self.paths]).encode()
        ).hexdigest()


def crd_sources() -> tuple[CrdSource, ...]:
    return tuple(
        CrdSource(
            name,
            tuple(row["groups"]),
            row["module"],
            row["version"],
            row["sum"],
            tuple(row["paths"]),
        )
        for name, row in table("rehearsal/toolchain/crds.toml").items()
    )


def crd_groups() -> tuple[str, ...]:
    """The API groups with CRDs, such as `gateway.networking.k8s.io`."""
    return (*(group for source in crd_sources() for group in source.groups), *own_groups())


def own_groups() -> tuple[str, ...]:
    """The API groups of our own CRDs; files are named like their definition,
    `<plural>.<group>.yaml`.
    """
    return tuple(sorted({path.stem.partition(".")[2] for path in OWN.glob("*.yaml")}))


def crd_documents(group: str, progress: Progress = silent) -> tuple[dict[str, Any], ...]:
    """The CustomResourceDefinition objects of one API group by name. Raises ToolchainError."""
    return tuple(document for path in crd_files(group, progress) for document in _read(path))


def crd_files(group: str, progress: Progress = silent) -> tuple[Path, ...]:
    """The CRDs of one API group as files by name, fetched if they are not in the cache. Raises
    ToolchainError.
    """
    if group in own_groups():
        return tuple(sorted(OWN.glob(f"*.{group}.yaml")))
    source = next((source for source in crd_sources() if group in source.groups), None)
    if source is None:
        raise ToolchainError(
            f"no CustomResourceDefinitions are pinned for the API group {group}",
            f"pinned groups are {', '.join(crd_groups())}",
        )
    return tuple(
        path for path in source_files(source, progress) if path.name.endswith(f".{group}.json")
    )


def source_files(source: CrdSource, progress: Progress = silent) -> tuple[Path, ...]:
    """The CRDs of one pinned project as files by name, fetched if they are not in the cache. Raises
    ToolchainError.
    """
    home = cache_directory() / "crds"
    directory = home / f"{source.name}-{source.digest()[:24]}"
    if not directory.is_dir():
        with (
            disk_faults(home),
            exclusive(lock_file(), f"fetching the CRDs of {source.name}", progress),
        ):
            if not directory.is_dir():
                _fetch(source, directory, progress)
    return tuple(sorted(directory.glob("*.json")))


def _fetch(source: CrdSource, directory: Path, progress: Progress) -> None:
    step = f"fetch the CRDs of {source.name} {source.version}"
    progress(StepStarted(step, 1, 1))
    began = time.monotonic()
    go = find_go(_LEAST_GO, progress)
    module = _download(source, go)
    staging = directory.with_name(f".{directory.name}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    for path in source.paths:
        for document in _read(module / path):
            (staging / f"{document['metadata']['name']}.json").write_text(
                json.dumps(document), encoding="utf-8"
            )
    staging.rename(directory)
    go.discard_leftovers()
    progress(StepFinished(step, 1, 1, time.monotonic() - began, f"{len(source.paths)} files"))


def _read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".json":
        return [json.loads(path.read_bytes())]
    import yaml

    class Loader(yaml.CSafeLoader):
        """PyYAML's loader, with the scalar `=` as a string: PyYAML does not construct its YAML 1.1
        type.
        """

    Loader.add_constructor("tag:yaml.org,2002:value", Loader.construct_yaml_str)
    with path.open("rb") as stream:
        return [each for each in yaml.load_all(stream, Loader=Loader) if each]


def _download(source: CrdSource, go: Go) -> Path:
    what = f"fetching {source.module} {source.version} failed"
    # The root directory has no go.mod above it, so no project's replacements can apply.
    module = download(f"{source.module}@{source.version}", Path("/"), go, what)
    if module["Sum"] != source.sum:
        raise ToolchainError(
            f"{source.module} {source.version} has hash {module['Sum']}, pinned is {source.sum}",
            "stop: the module was changed after it was pinned; ask its publisher, then update the"
            " pin in inferplan/rehearsal/toolchain/crds.toml",
        )
    return Path(module["Dir"])
