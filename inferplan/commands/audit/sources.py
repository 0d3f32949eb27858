"""Reads one side of an audit: manifests, a kustomization, a Helm chart, a path of a git revision,
or engine events of Pulumi.
"""

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from inferplan.audit.charts import branches, release_of
from inferplan.audit.documents import read_manifests
from inferplan.audit.engine_events import is_events, sides_of
from inferplan.audit.manifest import InputError, Manifest
from inferplan.audit.removals import VERSIONS
from inferplan.audit.renderers import is_chart, is_kustomization, render_chart, render_kustomization
from inferplan.errors import RequestError
from inferplan.progress import Progress, silent
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.pins import HELM, SOURCES
from inferplan.workspace.revisions import archive, commit_of, git


@dataclass(frozen=True, kw_only=True)
class Side:
    """The `manifests` of one side; `before` are those of the state before it, None unless engine
    events have them.

    `release` is the name of a chart's release, "" for other sources. `branches` are the objects
    that the chart has at an installation only, or at an upgrade only.
    """

    manifests: tuple[Manifest, ...]
    before: tuple[Manifest, ...] | None = None
    release: str = ""
    branches: tuple[str, ...] = ()

    @property
    def is_chart(self) -> bool:
        return bool(self.release)


def read_side(
    source: str | Path,
    *,
    values: Sequence[Path] = (),
    namespace: str = "default",
    kubernetes: str = VERSIONS[0],
    release: str = "",
    upgrade: bool = False,
    progress: Progress = silent,
) -> Side:
    """The manifests that `source` names; a chart is rendered for the version `kubernetes` as
    `release`, by default called as the chart is.

    Raises InputError with file and line, RehearsalError if Helm cannot be built.
    """
    path = Path(source)
    if "://" in str(source):
        raise InputError(
            [f"{source}: An audit needs no network. Download it, and name the folder."]
        )
    if not path.exists() and ":" in str(source):
        read = partial(
            read_side,
            values=values,
            namespace=namespace,
            kubernetes=kubernetes,
            release=release,
            upgrade=upgrade,
            progress=progress,
        )
        return _of_revision(str(source), read)
    if values and not is_chart(path):
        raise InputError(
            [f"{source}: --values is for Helm charts, and there is no Chart.yaml. Leave it out."]
        )
    if is_chart(path):
        release = release or release_of(path)
        render = partial(
            render_chart,
            helm(progress),
            path,
            values,
            namespace=namespace,
            kubernetes=_full_version(kubernetes),
            release=release,
        )
        side = _of_chart(path, release, render, upgrade=upgrade)
    elif is_kustomization(path):
        if (program := shutil.which("kubectl")) is None:
            raise InputError(
                [
                    f"{source}: A kustomization needs kubectl on PATH. Install it, or render it first."
                ]
            )
        side = Side(manifests=render_kustomization(Path(program), path))
    elif path.is_file() and is_events(path):
        before, after = sides_of(path)
        side = Side(manifests=after, before=before)
    else:
        side = Side(manifests=read_manifests(path))
    if not side.manifests:
        raise InputError(
            [
                f"{source} contains no objects. Name a file or folder of manifests, a chart or a kustomization."
            ]
        )
    return side


def _full_version(kubernetes: str) -> str:
    """The pinned version if it is one of `kubernetes`, such as 1.34, else its first one."""
    pinned = next(each.version for each in SOURCES if each.name == "kubernetes")
    return pinned if pinned.startswith(f"v{kubernetes}.") else f"v{kubernetes}.0"


def _of_chart(
    path: Path, release: str, render: Callable[..., tuple[Manifest, ...]], *, upgrade: bool
) -> Side:
    """The side of a chart, with the objects that only the other occasion has."""
    manifests = render(upgrade=upgrade)
    names, others = (
        {f"{each.kind} {each.name}" for each in several}
        for several in (manifests, render(upgrade=not upgrade) if branches(path) else manifests)
    )
    return Side(manifests=manifests, release=release, branches=tuple(sorted(names ^ others)))


def helm(progress: Progress) -> Path:
    """Helm from PATH, else built once from its Go module. Raises RehearsalError."""
    installed = shutil.which("helm")
    return Path(installed) if installed else ensure_source(HELM, progress) / "helm"


def _of_revision(source: str, read: Callable[[Path], Side]) -> Side:
    """The side at `REV:path` of the repository in the current folder. Filters and hooks of the
    repository do not run.
    """
    revision, _, path = source.partition(":")
    prefix = git(Path.cwd(), "rev-parse", "--show-prefix").stdout.decode().strip("\n")
    path = os.path.normpath(Path(prefix, path))
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
        inside = Path(folder, path)
        _extract(source, revision, path, Path(folder))
        if is_kustomization(inside):  # it may name folders that are not inside it
            _extract(source, revision, ".", Path(folder))
        try:
            side = read(inside)
        except InputError as error:
            raise InputError(
                each.replace(f"{folder}/", f"{revision}:") for each in error.errors
            ) from error
    shown = (
        replace(each, place=each.place.replace(f"{folder}/", f"{revision}:"))
        for each in side.manifests
    )
    return replace(side, manifests=tuple(shown))


def _extract(source: str, revision: str, path: str, folder: Path) -> None:
    try:
        content = archive(Path.cwd(), commit_of(Path.cwd(), revision), path)
    except RequestError as error:
        raise InputError(
            [
                f"{source}: There is no such file, folder or revision: {str(error)[:200]}. Name a path, or REV:path."
            ]
        ) from error
    try:
        # Links elsewhere in the repository that leave it are not extracted.
        with tarfile.open(
            fileobj=io.BytesIO(content), errorlevel=0 if path == "." else 1
        ) as members:
            members.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise InputError([f"{source}: {error}. Remove links that leave the folder."]) from error
