"""The report on a change: its event files, what the repository adds to them (read with git, as
data), and the report itself.
"""

import io
import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Any

from inferplan.errors import RequestError
from inferplan.kube.disclosure.encodings import HIDDEN
from inferplan.planning.own_verdict import with_own_verdict
from inferplan.planning.speed import read_speed
from inferplan.planning.violation_formats import read_rule
from inferplan.policies.engine.identity import ROOM, identity_in, identity_of, is_source
from inferplan.policies.engine.settings import today
from inferplan.pulumi_engine.reading.records import EventsError
from inferplan.review.findings import Findings, load
from inferplan.review.reading.preview import Preview
from inferplan.review.reading.reader import read_file
from inferplan.review.report import Provenance, Report, make_report
from inferplan.review.risks.guards import Guards
from inferplan.stackfile.reader import read_stack
from inferplan.workspace.project import SETTINGS_FOLDERS, project_root
from inferplan.workspace.revisions import commit_of, git, git_list, touched_between

_MISSING = {
    "changed": "there is no preview; its job failed, was skipped, or left no events",
    "new": "the stack is new and has no preview; its job failed, was skipped, or left no events",
    "deleted": (
        "its stack file is deleted, and its resources would stay unmanaged. Run inferplan down"
        " first, or restore the file."
    ),
}
_NOT_REHEARSED = "The upgrade was not rehearsed: this stack has no findings."


def report_on(
    events: Sequence[Path], provenance: Provenance, *, complete: bool, fork: bool
) -> Report:
    """The report on the previews and rehearsals in the files `events`.

    `complete` adds every stack that differs between the two commits of `provenance`; one without
    events is incomplete. `fork` marks events made by code that is not trusted. Raises RequestError
    if there is nothing to report.
    """
    contents = [(path, (read_or_explain if complete else read_events)(path)) for path in events]
    read = [(path, each) for path, each in contents if not isinstance(each, Findings)]
    previews = [replace(each, foreign=fork) for _, each in read]
    rehearsals = [each for _, each in contents if isinstance(each, Findings)]
    base = provenance.base or next((each.against for each in previews if each.against), "")
    root = project_root()
    commit = commit_of if complete else _commit
    change = Change(root, *(commit(root, each) for each in (base, provenance.commit)))
    previews = [
        with_own_verdict(each, path, change.guards(each.stack).after, required=change.requires_pack)
        for (path, _), each in zip(read, previews, strict=True)
    ]
    if complete:
        rehearsed = (each.stack for each in rehearsals if not each.is_trial)
        previews = completed(previews, change.stacks, rehearsed)
    elif not previews and not rehearsals:
        raise RequestError("EVENTS is missing. Give a file of engine events, or --complete")
    previews = [
        (
            each
            if each.against_config is not None
            else replace(each, against_config=change.config_before(each.stack))
        )
        for each in previews
    ]
    previews = [replace(each, notes=(*each.notes, *_hidden_note(each))) for each in previews]
    reproduce = [_preview_command(each) for each in previews if each.stack]
    files = " ".join(
        dict.fromkeys(quote(f"{each.stack}.ndjson") for each in previews if each.stack)
    )
    reproduce += [f"inferplan report {files}"] if files else []
    versions = [
        f"inferplan {version('inferplan')}",
        *(f"policies {each}" for each in change.packs[1:] if each),
    ]
    provenance = replace(
        provenance, base=base, versions=tuple(versions), reproduce=tuple(dict.fromkeys(reproduce))
    )
    return make_report(
        previews,
        provenance=provenance,
        read_rule=read_rule,
        rehearsals=rehearsals,
        read_guards=change.guards,
        read_speed=read_speed,
    )


def _commit(root: Path, revision: str) -> str:
    try:
        return commit_of(root, revision) if revision else ""
    except RequestError:
        return ""


def _preview_command(preview: Preview) -> str:
    # Names come from the stream, which a stranger may have written, and users paste the command.
    stack, target = quote(preview.stack), quote(f"{preview.stack}.ndjson")
    if preview.planner == "inferplan":
        against = f" --against {quote(preview.against)}" if preview.against else ""
        return f"inferplan plan {stack}{against} --events {target}"
    return (
        f"PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --json --stack {stack} >"
        f" {target}"
    )


def _hidden_note(preview: Preview) -> Iterator[str]:
    """The number of values that the report hides, and the command that shows them."""
    changes = [
        *preview.output_changes,
        *(change for step in preview.changed for change in step.changes),
    ]
    count = sum(HIDDEN in f"{each.old}{each.new}" for each in changes)
    if count:
        if preview.planner == "inferplan":
            command = f"{_preview_command(preview)}, and read that file"
        else:
            command = f"pulumi preview --diff --show-secrets --stack {quote(preview.stack)}"
        values = "1 value is" if count == 1 else f"{count:,} values are"
        yield (
            f"{values} hidden, in whole or in part, because nothing shows that they are public. To"
            f" see them on your own machine: {command}"
        )


def read_events(path: Path) -> Preview | Findings:
    """The preview or the findings in the file `path`. Raises OperationError that says what is wrong
    with it.
    """
    try:
        # Findings are small and begin with their format; a large file is not read twice.
        small = path.read_bytes() if path.is_file() and path.stat().st_size < 2**20 else b""
        return load(small, source=path.name) or read_file(path)
    except OSError as error:
        raise RequestError(
            f"{path} cannot be read: {error.strerror}. Give a file of engine events, for example"
            " from inferplan plan --events"
        ) from error
    except EventsError as error:
        raise RequestError(str(error)) from error
    except RecursionError as error:
        raise RequestError(
            f"{path}: a value is nested too deeply for an engine event. Give a file of engine"
            " events"
        ) from error


def read_or_explain(path: Path) -> Preview | Findings:
    """Like `read_events`; a file that cannot be read is an incomplete preview, so that the others
    are still reported.
    """
    try:
        return read_events(path)
    except RequestError as error:
        name = path.name.removesuffix(path.suffix)
        return _absent(name, f"its events are unreadable: {error}")


def completed(
    previews: Sequence[Preview], expected: Mapping[str, str], rehearsed: Iterable[str]
) -> list[Preview]:
    """`previews`, each stack of `expected` exactly once among them: an incomplete one where it is
    missing or doubled.
    """
    by_stack: dict[str, list[Preview]] = {}
    for each in previews:
        # An empty stream names no stack; its file does.
        name = each.stack or each.source.removesuffix(".ndjson")
        by_stack.setdefault(name, []).append(
            each if each.stack else replace(each, project="inferplan", stack=name)
        )
    complete: list[Preview] = []
    for name, several in by_stack.items():
        if expected.get(name) == "deleted":
            continue
        doubled = f"it has {len(several)} previews; expected one" if len(several) > 1 else ""
        complete += [replace(each, incomplete=doubled or each.incomplete) for each in several]
    complete += [
        _absent(name, _MISSING[why])
        for name, why in expected.items()
        if why == "deleted" or name not in by_stack
    ]
    lacking = {name for name, why in expected.items() if why == "changed"} - set(rehearsed)
    return [
        replace(each, notes=(*each.notes, _NOT_REHEARSED)) if each.stack in lacking else each
        for each in complete
    ]


def _absent(stack: str, why: str) -> Preview:
    return Preview(
        source=stack, project="inferplan", stack=stack, steps=(), counts={}, incomplete=why
    )


@dataclass(frozen=True)
class Change:
    """The commits `base` and `head` of the repository in `root`; "" for an unknown side; an unknown
    `head` means the working tree.
    """

    root: Path
    base: str
    head: str

    @cached_property
    def stacks(self) -> dict[str, str]:
        """The stacks that the change touches, each "changed", "new" or "deleted"."""
        return touched_between(self.root, self.base, self.head)

    def guards(self, stack: str) -> Guards:
        unread = ""
        try:
            after = self._settings(self.head, stack) or {}
            before = self._settings(self.base, stack) or {} if self.base else None
        except ValueError as error:
            after, before, unread = {}, None, str(error)
        return Guards(
            after=after,
            before=before,
            today=today(),
            unread=unread,
            code=self._pack_files,
            packs=self.packs,
        )

    def config_before(self, stack: str) -> dict[str, str] | None:
        text = self._text(self.base, f"stacks/Pulumi.{stack}.yaml") if self.base else None
        if text is None:
            return None
        with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
            path = Path(folder, "Pulumi.base.yaml")
            path.write_text(text)
            return dict(read_stack(path).config)

    @cached_property
    def requires_pack(self) -> bool:
        """True if the base has a policy pack: a stream that names none is judged all the same."""
        folders = (folder.rpartition("/")[0] for folder in SETTINGS_FOLDERS)
        return bool(self.base) and any(
            self._text(self.base, f"{folder}/PulumiPolicy.yaml") is not None for folder in folders
        )

    @cached_property
    def _pack_files(self) -> tuple[str, ...]:
        if not (self.base and self.head):
            return ()
        own = [folder.rpartition("/")[0] for folder in SETTINGS_FOLDERS[1:]]
        settings = (f":!{folder}" for folder in SETTINGS_FOLDERS)
        names = (
            git_list(
                self.root,
                "diff",
                "--name-only",
                "-z",
                self.base,
                self.head,
                "--",
                ROOM,
                *own,
                *settings,
            )
            or ()
        )
        return tuple(
            name
            for name in names
            if not name.startswith(f"{ROOM}/") or is_source(name.removeprefix(f"{ROOM}/"))
        )

    @cached_property
    def packs(self) -> tuple[str, str]:
        """The identity of the project's own pack on both sides, "" where it has none."""
        return self._pack(self.base) if self.base else "", self._pack(self.head)

    def _pack(self, revision: str) -> str:
        if not revision:
            return identity_in(self.root / ROOM)
        archive = git(self.root, "archive", "--format=tar", revision, "--", ROOM)
        if archive.returncode:
            return ""
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            names = {each.name.removeprefix(f"{ROOM}/"): each for each in files if each.isfile()}
            return identity_of(
                {
                    name: reader.read()
                    for name, each in names.items()
                    if (reader := files.extractfile(each))
                }
            )

    def _settings(self, revision: str, stack: str) -> dict[str, Any] | None:
        paths = [f"{folder}/{stack}.json" for folder in SETTINGS_FOLDERS]
        path, text = next(
            ((path, text) for path in paths if (text := self._text(revision, path)) is not None),
            ("", None),
        )
        if text is None:
            return None
        try:
            settings = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if not isinstance(settings, dict):
            raise ValueError(f"{path} is not a JSON object")  # noqa: TRY004 - one error for whatever is wrong with the text
        return settings

    def _text(self, revision: str, path: str) -> str | None:
        """The text of the file `path` at `revision`, of the working tree for ""; None if there
        is none.
        """
        if revision:
            shown = git(self.root, "show", f"{revision}:{path}")
            return None if shown.returncode else shown.stdout.decode(errors="replace")
        file = self.root / path
        return (
            file.read_text(errors="replace")
            if "/" not in Path(path).name and file.is_file()
            else None
        )
