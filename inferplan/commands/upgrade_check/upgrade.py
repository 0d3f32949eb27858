"""Changes that the installed version makes to a stack that an older version deployed.

`releases/<version>/<stack>.json.xz` in the project is the plan of a stack by that version. The
installed version plans the same configuration, so the difference is the upgrade alone, without
later edits of the stack file.
"""

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from inferplan.documents.errors import InvalidStack, dotted
from inferplan.documents.files import draft
from inferplan.documents.yaml_edit import rename_key
from inferplan.errors import OperationError, RequestError
from inferplan.planning.plan import plan_stack, with_secrets_of
from inferplan.pulumi_engine.plan.states import States, load, states_of
from inferplan.pulumi_engine.plan.steps import Plan, Step, make_plan
from inferplan.pulumi_engine.program.record import record
from inferplan.stackfile.advice import renames
from inferplan.stackfile.reader import PROJECT, read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.project import project_name, short_path
from inferplan.workspace.workspace import Workspace

FOLDER = "releases"
_SUFFIX = ".json.xz"
_ORDER = ("replace", "delete", "update", "create")


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """The difference for one stack: `plan` leads from what `release` deployed to what `installed`
    declares of the same configuration.
    """

    stack: str
    release: str
    installed: str
    plan: Plan

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that change something, replacements first."""
        return tuple(
            sorted(
                (each for each in self.plan.steps if each.op in _ORDER),
                key=lambda step: _ORDER.index(step.op),
            )
        )

    @property
    def disruptive(self) -> bool:
        """True if a resource is replaced or deleted."""
        return any(step.op in ("replace", "delete") for step in self.steps)


def save_release(workspace: Workspace) -> Path:
    """Write the plan of the stack by the installed version, for the check after an upgrade. Returns
    the file.
    """
    path = _file(workspace.root, version("inferplan"), workspace.stack)
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft(path, lzma.compress(plan_stack(workspace).saved(), preset=9)) as written:
        written.replace(path)
    return path


def saved_stacks(root: Path) -> list[str]:
    """The stacks that some release saved."""
    return sorted(
        {path.name.removesuffix(_SUFFIX) for path in (root / FOLDER).glob(f"*/*{_SUFFIX}")}
    )


def check_upgrade(workspace: Workspace, release: str | None = None) -> Upgrade:
    """Compare with the plan of `release`, the newest saved one by default. Raises RequestError if
    there is none.
    """
    installed = version("inferplan")
    releases = sorted(
        (
            path.parent.name
            for path in (workspace.root / FOLDER).glob(f"*/{workspace.stack}{_SUFFIX}")
        ),
        key=_number,
    )
    if release is None and not releases:
        raise RequestError(
            f"{short_path(workspace.root / FOLDER)} has no plan of {workspace.stack} by an older"
            " version. Save one with the wheel of the version that deployed it:"
            f" uvx --from WHEEL inferplan upgrade-check {workspace.typed} --save"
        )
    release = release or releases[-1]
    before = _load(_file(workspace.root, release, workspace.stack))
    now = workspace.engine_input()
    secrets = {key: now["config"][key] for key in now["secret_keys"]}
    config = {key: text for key, text in before.config.items() if text != "[secret]"} | secrets
    project = project_name(workspace.root)
    recording = record(
        workspace.program,
        project=project,
        stack=workspace.stack,
        config=config,
        secret_keys=now["secret_keys"],
        root=workspace.root,
    )
    plan = make_plan(recording, with_secrets_of(before, states_of(recording)))
    return Upgrade(stack=workspace.stack, release=release, installed=installed, plan=plan)


def old_keys(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Each key of an older version in the stack file as users write its path, and its name today."""
    return (
        (dotted(path), new)
        for path, new in renames(workspace.file.written_keys, workspace.settings)
    )


def rename_keys(workspace: Workspace) -> list[str]:
    """Rename the keys of older versions in the stack file, and nothing else in it. Raises
    OperationError; then the file is as it was.
    """
    path, edits = (
        workspace.file.path,
        list(renames(workspace.file.written_keys, workspace.settings)),
    )
    text = path.read_bytes().decode()
    for (section, *rest), name in edits:
        try:
            text = rename_key(text, ("config", f"{PROJECT}:{section}", *rest), name)
        except (KeyError, ValueError) as error:
            where = dotted((section, *rest))
            raise OperationError(
                f"{workspace.file.shown_path}: {where} cannot be edited ({error}). Rename it to"
                f" {name} by hand"
            ) from error
    with draft(path, text.encode()) as written:
        try:
            same = validate(read_stack(written)) == workspace.settings
        except InvalidStack:
            same = False
        if not same:
            raise OperationError(
                f"{workspace.file.shown_path} was left as it is: the edit would change its meaning."
                " Rename the keys by hand"
            )
        written.chmod(path.stat().st_mode)
        written.replace(path)
    return [f"{dotted(key)}: now {name}" for key, name in edits]


def _file(root: Path, release: str, stack: str) -> Path:
    return root / FOLDER / release / f"{stack}{_SUFFIX}"


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in release.split("."))


def _load(path: Path) -> States:
    try:
        return load(lzma.decompress(path.read_bytes()))
    except OSError as error:
        raise RequestError(
            f"{short_path(path)} cannot be read: {error.strerror}. Save it with the version that"
            " deployed the stack"
        ) from error
    except (lzma.LZMAError, ValueError) as error:
        raise RequestError(
            f"{short_path(path)} is damaged: {error}. Restore it from version control"
        ) from error
