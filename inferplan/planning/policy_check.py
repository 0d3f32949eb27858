"""The verdict of the policy pack on a stack, with the lines of the stack file that caused it. It
prints nothing.
"""

import dataclasses
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from inferplan.documents.errors import KeyPath, dotted
from inferplan.errors import RequestError
from inferplan.kube.paths import mapped, parse
from inferplan.policies.engine.evaluate import Outcome
from inferplan.policies.engine.fields import UNKNOWN as UNREADABLE
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report, check_stack
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.settings import STATES, SettingsError, today
from inferplan.policies.engine.settings_reader import read_settings
from inferplan.pulumi_engine.recording import Recording, Registration
from inferplan.pulumi_engine.values import UNKNOWN, reveal
from inferplan.stackfile.reader import StackFile, read_stack, stack_path
from inferplan.tables import table
from inferplan.workspace.project import SETTINGS_FOLDERS

MOST_DRAFTS = 10
# The section of the stack file that declares each folder of components.
_SECTIONS = {
    "serving": "models",
    "preheat": "models",
    "nodes": "nodePools",
    "queue": "queues",
    "objects": "extraObjects",
} | {
    name: name for name in ("storage", "gateway", "namespace", "cluster", "monitoring", "benchmark")
}


def judge(recording: Recording, root: Path) -> Report:
    """The verdict on `recording` with the stack's own settings. Raises RequestError if those have
    errors.
    """
    try:
        settings = read_settings(settings_file(root, recording.stack), all_rules(), today())
    except SettingsError as error:
        raise RequestError(str(error)) from error
    # Imports Pulumi's SDK, which the shell's completion does without.
    from inferplan.components.preheat.pod import program

    # The tests of this project judge its own programs. Their 200 KB would take three quarters of the
    # rules' time for a small stack.
    report = check_stack(stack_of(recording, judged=frozenset(program().values())), settings)
    path = stack_path(root, recording.stack)
    if not path.exists():
        return report
    file = read_stack(path, shown_path=str(path.relative_to(root)))
    return dataclasses.replace(
        report, places=_places(recording, file, (*report.violations, *report.advice))
    )


def settings_file(root: Path, stack: str) -> Path:
    """The settings of `stack` next to the project's policy pack: in the package in a checkout of
    inferplan, else in `policies`.
    """
    folders = [root / folder for folder in SETTINGS_FOLDERS]
    return next((each for each in folders if each.is_dir()), folders[-1]) / f"{stack}.json"


def exemption_drafts(report: Report) -> list[str]:
    """Draft `exemptions` for the blocked fields, at most MOST_DRAFTS, each a line of JSON. They are
    valid once `expires` has a date.
    """
    names = {state: name for name, state in STATES.items()}
    blocked = dict.fromkeys(
        (each.rule.id, each.resource, each.path, names[each.state])
        for each in report.violations
        if each.state in names
    )
    blank = {"reason": "why this one may", "owner": "who answers for it", "expires": "YYYY-MM-DD"}
    keys = ("rule", "resource", "path", "state")
    return [
        json.dumps({**dict(zip(keys, each, strict=True)), **blank})
        for each in list(blocked)[:MOST_DRAFTS]
    ]


def stack_of(recording: Recording, *, judged: frozenset[str] = frozenset()) -> Stack:
    """The resources of `recording`. It contains secrets in plain text, as for every analyzer; rules
    never show values. They read a text that is in `judged` as empty.
    """

    def readable(value: Any) -> Any:
        if value is UNKNOWN:
            return UNREADABLE
        return "" if isinstance(value, str) and value in judged else value

    return Stack(
        recording.stack,
        (
            Resource(
                inputs=mapped(reveal(each.inputs), readable),
                **{
                    name: getattr(each, name)
                    for name in ("type", "urn", "name", "parent", "provider", "custom")
                },
                **{name: getattr(each, name) for name in ("dependencies", "property_dependencies")},
                **{
                    name: getattr(each.options, name)
                    for name in ("protect", "retain_on_delete", "ignore_changes")
                },
            )
            for each in recording
            if not each.read
        ),
        outputs=recording.outputs,
    )


def _places(
    recording: Recording, file: StackFile, outcomes: Iterable[Outcome]
) -> dict[tuple[str, str], str]:
    """By rule and URN, `file:line: key` of each outcome whose resource was declared by an entry of
    the stack file.
    """
    by_urn = {each.urn: each for each in recording}
    places: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        path = _key_path(by_urn, by_urn.get(outcome.urn), file)
        if not path:
            continue
        is_manifest = path[0] == "extraObjects"  # the user wrote the object itself
        path = (
            *path,
            *(
                _written_part(outcome.path)
                if is_manifest
                else table("workspace/stack_fields.toml")["rules"].get(outcome.rule.id, ())
            ),
        )
        place = file.locate(path)
        line = f":{place.line}" if place else ""
        places[outcome.rule.id, outcome.urn] = f"{file.shown_path}{line}: {dotted(path)}"
    return places


def _written_part(path: str) -> KeyPath:
    with suppress(ValueError):
        return parse(path)
    return ()


def _key_path(
    by_urn: dict[str, Registration], each: Registration | None, file: StackFile
) -> KeyPath:
    """The section, and the entry in it, of the nearest component above a resource that the stack
    file declares.
    """
    name = ""
    while each is not None:
        package, _, rest = each.type.partition(":")
        section = _SECTIONS.get(rest.partition(":")[0]) if package == "inferplan" else None
        if section is not None:
            entry = name if section == "extraObjects" else each.name
            return (section, entry) if entry in file.written_keys(section) else (section,)
        name, each = each.name, by_urn.get(each.parent)
    return ()
