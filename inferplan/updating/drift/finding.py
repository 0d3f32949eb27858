"""The differences between live objects and the stack: who made each, what to type, as lines for
people and as a document.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Literal

from inferplan.kube.field_owners import Owner, Writer, is_taken_over, manager_of
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from inferplan.kube.paths import MISSING, Path, covers, parse, text_of
from inferplan.tables import table
from inferplan.updating.drift.visible import shown, visible
from inferplan.workspace.live import ObjectKey

Action = Literal["create", "reset", "apply", "contest", "leave", "remove", "rescale", "appeared"]
"""The effect of `inferplan up` on a difference; `apply` brings a change of the stack file,
`contest` is undone by a scaler, `remove` drops what kubectl added, in a rehearsal always and on a
real cluster with an update of the object; `rescale` belongs to a scaler that is gone, and that the
update creates; `appeared` is an object that only people declare.
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A difference at `path` of `key`, "" for a missing object. `live` and `ours` are MISSING where
    there is no value.
    """

    key: ObjectKey
    path: Path = ()
    live: Any = MISSING
    ours: Any = MISSING
    writer: Writer | None = None
    action: Action
    setting: str = ""
    """The field of the stack file that decides about it, "" if none is known."""
    variable: str = ""
    """The environment variable that the path leads into, "" if it leads elsewhere."""
    inputs: Any = field(default=None, repr=False)
    """The declared inputs, which mark secrets."""

    @property
    def place(self) -> str:
        return text_of(self.path)

    def values(self) -> tuple[Any, Any]:
        return visible(self.live, self.path, self.inputs), visible(
            self.ours, self.path, self.inputs
        )

    def sentence(self) -> str:
        if self.action == "appeared":
            return "exists, and the stack does not declare it"
        if not self.path:
            return "does not exist, and the stack declares it"
        live, ours = (shown(each) for each in self.values())
        declared = "does not declare it" if self.ours is MISSING else f"declares {ours}"
        return (
            f"{self.place}{f' ({self.variable})' if self.variable else ''} is {live}, the stack"
            f" {declared}"
        )

    @property
    def author(self) -> str:
        if self.writer is None:
            removed = self.live is MISSING
            return (
                "not recorded: Kubernetes does not say who removes something"
                if removed
                else "not recorded: no field manager owns it"
            )
        through = f" with subresource {self.writer.subresource}" if self.writer.subresource else ""
        when = f" at {self.writer.time}" if self.writer.time else ""
        return f"{self.writer.manager}{through}{when}"


@dataclass(frozen=True, kw_only=True)
class Drift:
    stack: str
    findings: tuple[Finding, ...]
    compared: int
    uncovered: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Sentences about objects that could not be compared because the API server answered with an
    error.
    """


def action_of(writer: Writer | None, live: Any, ours: Any) -> Action:
    owner = Owner.PEOPLE if writer is None else manager_of(writer.manager, writer.subresource)
    if owner is Owner.STACK:
        return "apply"
    return "contest" if owner is Owner.SCALER and MISSING not in (live, ours) else "reset"


def setting_of(labels: Mapping[str, str], path: Path) -> str:
    """The field of the stack file that decides about `path` of an object with `labels`, "" if none
    is known.
    """
    component, instance = labels.get(COMPONENT_LABEL, ""), labels.get(INSTANCE_LABEL, "")
    fields = table("workspace/stack_fields.toml")["paths"].get(component, {})
    name = next((name for text, name in fields.items() if covers(parse(text), path)), "")
    if not name:
        return ""
    return f"models.{instance}.{name}" if component == "model" else f"{component}.{name}"


@dataclass(frozen=True, kw_only=True)
class Words:
    command: str
    file: str
    kubectl: str


def lines(drift: Drift, words: Words) -> Iterator[str]:
    for key, findings in groupby(drift.findings, key=lambda each: each.key):
        yield str(key)
        for each in findings:
            yield f"  {each.sentence()}"
            yield f"    by: {each.author}"
            yield f"    to do: {remedy(each, words)}"
    for text in (*drift.failures, *drift.uncovered):
        yield f"not compared: {text}"
    if not (drift.findings or drift.failures):
        yield f"{drift.stack}: no difference in {drift.compared} objects"


def notes_before_update(drift: Drift, file: str) -> Iterator[str]:
    """A sentence for each change by hand that the update is about to revert, or leaves."""
    for each in drift.findings:
        if each.writer is None or each.action not in (
            "reset",
            "contest",
            "leave",
            "remove",
            "rescale",
        ):
            continue
        keep = f". To keep it, set {each.setting} in {file}" if each.setting else ""
        effect = {
            "leave": f"stays{_until(each)}, because the stack does not declare it",
            "rescale": "stays until the scaler, which does not exist and is created, changes it",
            "remove": f"is removed, because the stack does not declare it{keep}",
        }.get(each.action, f"is set back{keep}")
        yield f"{each.key}: {each.sentence()} (changed by {each.author}); it {effect}"


def remedy(finding: Finding, words: Words) -> str:
    keep = f"; to keep it, set {finding.setting} in {words.file}" if finding.setting else ""
    place = f" -n {finding.key.namespace}" if finding.key.namespace else ""
    match finding.action:
        case "contest":
            named = finding.setting or finding.place
            return (
                f"a scaler changes it, and {words.command} would set it back each time. Write"
                f" {named}: {{min, max, on}} in {words.file}, or delete the scaler: {words.kubectl}"
                f" get hpa,scaledobject{place}"
            )
        case "leave" | "appeared":
            verb = "edit" if finding.action == "leave" else "delete"
            edit = f"{words.kubectl} {verb} {finding.key.kind.lower()} {finding.key.name}{place}"
            return (
                f"{words.command} leaves it{_until(finding)}, because the stack does not declare"
                f" it. Remove it with: {edit}{keep}"
            )
    effects = {
        "create": "creates it",
        "apply": "applies it: the stack file has changed since the last update",
        "remove": f"removes it, because the stack does not declare it{keep}",
        "rescale": "creates its scaler, which does not exist and decides about it",
    }
    return f"{words.command} {effects.get(finding.action, f'sets it back{keep}')}"


def _until(finding: Finding) -> str:
    taken = (
        finding.action == "leave" and finding.writer is not None and is_taken_over(finding.writer)
    )
    return " until an update changes this object" if taken else ""


def document(drift: Drift, words: Words) -> dict[str, Any]:
    return {
        "stack": drift.stack,
        "compared": drift.compared,
        "differences": [_entry(each, remedy(each, words)) for each in drift.findings],
        "notCompared": [*drift.failures, *drift.uncovered],
    }


def _entry(finding: Finding, text: str) -> dict[str, Any]:
    live, ours = finding.values()
    key = finding.key
    return {
        "object": {
            "apiVersion": key.api_version,
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
        },
        "path": finding.place,
        "variable": finding.variable or None,
        "live": live,
        "declared": ours,
        "by": None if finding.writer is None else asdict(finding.writer),
        "action": finding.action,
        "setting": finding.setting or None,
        "remedy": text,
    }
