"""Cases for rules: a row names one field of the base stack and says what a rule makes of each thing
that may stand there.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.pulumi_engine.recording import Options, Recording, Registration
from inferplan.pulumi_engine.values import UNKNOWN, Secret

PASS, REFUSED, UNJUDGED = "pass", "violation", "not evaluated"


ADMINS = ["arn:aws:iam::111122223333:role/platform", "arn:aws:iam::111122223333:role/on-call"]
OUTPUTS = {
    "facts": {
        "version": 1,
        "model": {"chat": {"weights": {"size": "16Gi"}}},
        "cluster": {"cluster": {"admins": ADMINS}},
        "store": {"weights": {"location": "s3://acme-weights/llm"}},
    }
}
"""What the base stack states about itself."""


class Absent:
    """The mark of a field that is taken away."""


ABSENT = Absent()
_KEYS = re.compile(r"((?:[^.\[\]\\]|\\.)+)|\[(\d+)\]")


@dataclass(frozen=True)
class Row:
    """One rule and the field that decides: `resource` is `Kind/name`, `path` as findings print it.

    Makes six cases: the base as it is, `bad`, `near` (looks bad, is fine), unknown, `bad` as a
    secret, and absent. `also` are changes, by path, under which all of them are tried; `more` are
    further values with their verdicts.
    """

    rule: str
    resource: str
    path: str
    bad: Any
    near: Any
    absent: str
    unknown: str = UNJUDGED
    base: str = PASS
    also: dict[str, Any] = field(default_factory=dict)
    more: tuple[tuple[Any, str], ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One change of the base stack, and what the rule must say."""

    name: str
    row: Row
    value: Any
    expected: str

    def recording(self) -> Recording:
        """The base stack with the change."""
        return changed(self.row.resource, self._edits())

    def stack(self) -> Stack:
        """The base stack with the change, as rules read it."""
        return stack_with(self.row.resource, self._edits())

    def _edits(self) -> dict[str, Any]:
        return (
            dict(self.row.also)
            if self.name == "base"
            else {**self.row.also, self.row.path: self.value}
        )

    def __str__(self) -> str:
        return f"{self.row.rule}-{self.name}"


def cases_of(row: Row) -> Iterator[Case]:
    """The cases that `row` stands for."""
    yield Case("base", row, None, row.base)
    yield Case("bad", row, row.bad, REFUSED)
    yield Case("near-miss", row, row.near, PASS)
    yield Case("unknown", row, UNKNOWN, row.unknown)
    yield Case("secret", row, Secret(row.bad) if row.bad is not ABSENT else ABSENT, REFUSED)
    yield Case("absent", row, ABSENT, row.absent)
    for position, (value, expected) in enumerate(row.more):
        yield Case(f"more-{position}", row, value, expected)


@cache
def base() -> list[dict[str, Any]]:
    """The resources of the base stack. Nobody may change them in place."""
    return yaml.load((Path(__file__).parent / "base.yaml").read_text(), Loader=yaml.CSafeLoader)


def edited(each: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    """A copy of one resource with `edits` by path; a path that begins with @ is what it is
    registered with.
    """
    target = copy.deepcopy(each)
    for path, value in edits.items():
        if path.startswith("@"):
            target[path[1:]] = value
        else:
            put(
                target["inputs"],
                keys_of(path),
                copy.deepcopy(value) if not isinstance(value, Absent) else value,
            )
    return target


def changed(resource: str, edits: dict[str, Any]) -> Recording:
    """The base stack with `edits` of one resource, by path; the path `resource` takes the resource
    itself away.
    """
    kept = [each for each in base() if "resource" not in edits or label(each) != resource]
    return recording_of([edited(each, edits) if label(each) == resource else each for each in kept])


def stack_with(resource: str, edits: dict[str, Any]) -> Stack:
    """The stack of `changed`, as rules read it. Resources that no edit touches are the same objects
    each time.
    """
    recording = changed(resource, edits)
    if "resource" in edits:
        return stack_of(recording)
    known = _base_resources()
    target = [each for each in recording if f"{known[each.urn].short_kind}/{each.name}" == resource]
    edited_one = {
        each.urn: each
        for each in stack_of(dataclasses.replace(recording, registrations=tuple(target)))
    }
    return Stack(
        recording.stack,
        [edited_one.get(each.urn, known[each.urn]) for each in recording],
        outputs=OUTPUTS,
    )


@cache
def _base_resources() -> dict[str, Resource]:
    return {each.urn: each for each in stack_of(recording_of(base()))}


def recording_of(listed: list[dict[str, Any]], stack: str = "test") -> Recording:
    """The resources `listed`, in the shape of base.yaml, as an engine records them."""
    urns = {
        label(each): f"urn:pulumi:{stack}::inferplan::{each['type']}::{each['name']}"
        for each in listed
    }
    return Recording(
        project="inferplan",
        stack=stack,
        outputs=OUTPUTS,
        registrations=tuple(
            Registration(
                urn=urns[label(each)],
                type=each["type"],
                name=each["name"],
                custom=not each.get("component", False),
                parent=urns.get(each.get("parent", ""), ""),
                inputs=each["inputs"],
                dependencies=tuple(
                    urns[name] for name in each.get("dependencies", ()) if name in urns
                ),
                property_dependencies={
                    key: tuple(urns[name] for name in names if name in urns)
                    for key, names in each.get("property_dependencies", {}).items()
                },
                provider=each.get(
                    "provider",
                    urns.get("kubernetes/cluster", "")
                    if each["type"].startswith("kubernetes:")
                    else "",
                ),
                options=Options(
                    protect=each.get("protect", False),
                    retain_on_delete=each.get("retain_on_delete", False),
                    ignore_changes=tuple(each.get("ignore_changes", ())),
                ),
            )
            for each in listed
        ),
    )


def label(each: dict[str, Any]) -> str:
    """A resource as `Kind/name`."""
    return f"{each['type'].rpartition(':')[2]}/{each['name']}"


def keys_of(path: str) -> list[str | int]:
    """`spec.containers[0].image` as keys and positions; a dot inside a key is written as two
    characters, backslash and dot.
    """
    return [
        int(place) if place else name.replace("\\.", ".") for name, place in _KEYS.findall(path)
    ]


def put(inputs: Any, keys: list[str | int], value: Any) -> None:
    """Sets, or with ABSENT removes, what `keys` lead to; maps on the way are made."""
    *before, last = keys
    here = inputs
    for key in before:
        if isinstance(key, str) and (key not in here or not isinstance(here[key], dict | list)):
            here[key] = {}
        here = here[key]
    if isinstance(value, Absent):
        if isinstance(last, int):
            del here[last]
        else:
            here.pop(last, None)
    elif isinstance(last, int) and last == len(here):
        here.append(value)
    else:
        here[last] = value
