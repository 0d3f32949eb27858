"""The independent corpus: faults and legitimate near misses from public sources, each an edit of a
clean resource.

A fault is caught if the edit brings a mandatory outcome that the clean resource does not have: a
violation, or a rule or kind that says it cannot judge. A near miss, or a clean resource, that
brings one is a false alarm. Which rule speaks is not asked: the corpus was written before the rules
were read.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from inferplan.policies.engine.evaluate import Outcome
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Settings

FOLDER = Path(__file__).parent / "corpus"
# Conventions of this project that say nothing of safety, and a provider, which a resource alone
# does not have.
CONVENTIONS = ("object-require-managed-by", "stack-disallow-several-providers")
SETTINGS = Settings(today="2026-11-22", levels=dict.fromkeys(CONVENTIONS, Level.DISABLED))
_TABLES = ("sources.yaml", "uncaught.yaml")
_DOCUMENTS = ("policy", "assumeRolePolicy")


@dataclass(frozen=True, slots=True)
class Case:
    """One fault or near miss: the edited stack and the clean one it comes from (None where the
    resource is new).
    """

    title: str
    fault: bool
    source: tuple[str, str]
    file: str
    base: str
    edited: Stack
    clean: Stack | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the pack says of a case beyond what it says of the clean stack."""

    case: Case
    outcomes: tuple[Outcome, ...]

    @property
    def right(self) -> bool:
        """Whether a fault was caught or a near miss passed."""
        return bool(self.outcomes) == self.case.fault


def _load(text: str) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


def sources() -> Mapping[str, Mapping[str, str]]:
    """The public sources by their short names."""
    return _load((FOLDER / "sources.yaml").read_text())


def uncaught() -> Mapping[str, str]:
    """Titles of faults that the pack does not catch, with the reason."""
    return _load((FOLDER / "uncaught.yaml").read_text())


@cache
def bases() -> Mapping[str, Mapping[str, Any]]:
    """The clean resources by name."""
    return {
        name: base
        for path in sorted(FOLDER.glob("*bases.yaml"))
        for name, base in _load(path.read_text()).items()
    }


@cache
def cases() -> tuple[Case, ...]:
    """Every case of every file, in the order of the files."""
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name not in _TABLES and not path.name.endswith("bases.yaml"):
            for group in _load(path.read_text()):
                for row in group["rows"]:
                    yield _case(path.stem, group, row)


def clean(name: str) -> Stack:
    """The stack of a base as it stands."""
    base = bases()[name]
    return _stack([_listed(name, base), *base.get("beside", ())])


def judge(case: Case) -> Verdict:
    """What the pack says of the edit alone."""
    before = (
        {(each.rule.id, each.path, each.problem) for each in _of_clean(case.clean)}
        if case.clean
        else set()
    )
    told = tuple(
        each
        for each in mandatory(case.edited)
        if (each.rule.id, each.path, each.problem) not in before
    )
    return Verdict(case, told)


def _of_clean(stack: Stack) -> tuple[Outcome, ...]:
    """The refusals of a stack that many cases start from, judged once."""
    key = tuple((each.urn, repr(each.inputs), each.protect) for each in stack)
    if key not in _CLEAN:
        _CLEAN[key] = mandatory(stack)
    return _CLEAN[key]


_CLEAN: dict[tuple[tuple[str, str, bool], ...], tuple[Outcome, ...]] = {}


def mandatory(stack: Stack) -> tuple[Outcome, ...]:
    """The refusals of `stack`."""
    return tuple(check_stack(stack, SETTINGS).violations)


def _case(file: str, group: Mapping[str, Any], row: Mapping[str, Any]) -> Case:
    title = row.get("fault") or row["fine"]
    source = tuple(row.get("source", group["source"]))
    if "new" in row:
        return Case(
            title,
            "fault" in row,
            source,
            file,
            "",
            _stack([_listed("subject", row["new"]), *row.get("beside", ())]),
            None,
        )
    base = bases()[group["base"]]
    subject = {**base, "inputs": copy.deepcopy(base["inputs"])}
    for at, edit in ((row.get("at", group["at"]), row.get("also")), (group["at"], row["edit"])):
        if edit is not None:
            _apply(subject, ["inputs", *filter(None, at.split("."))], edit)
    beside = [*base.get("beside", ()), *row.get("beside", ())]
    edited = _stack([_listed(group["base"], subject), *beside, *row.get("with", ())])
    return Case(
        title,
        "fault" in row,
        source,
        file,
        group["base"],
        edited,
        _stack([_listed(group["base"], base), *beside]),
    )


def _listed(name: str, resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": name, **resource}


def _stack(listed: list[Mapping[str, Any]]) -> Stack:
    return Stack(
        "corpus",
        [
            Resource(
                type=each["type"],
                urn=f"urn:pulumi:corpus::p::{each['type']}::{each['name']}",
                name=each["name"],
                inputs=_as_sent(each["inputs"]),
                protect=each.get("protect", False),
            )
            for each in listed
        ],
    )


def _as_sent(inputs: Any) -> Any:
    """The inputs as a program sends them: without nulls, policy documents as JSON text."""
    if isinstance(inputs, Mapping):
        sent = {key: _as_sent(value) for key, value in inputs.items() if value is not None}
        return {
            key: json.dumps(value) if key in _DOCUMENTS and isinstance(value, dict) else value
            for key, value in sent.items()
        }
    return [_as_sent(each) for each in inputs] if isinstance(inputs, list) else inputs


def _apply(value: Any, path: list[str], edit: Any) -> None:
    """Merges `edit` at `path`: maps merge, whole numbers are places of a list, `+` appends, `=`
    replaces, the rest replaces.
    """
    *parents, last = path
    for key in parents:
        value = value[int(key)] if isinstance(value, list) else value.setdefault(key, {})
    key: Any = int(last) if isinstance(value, list) else last
    here = value[key] if isinstance(value, list) else value.get(key)
    value[key] = _merged(here, edit)


def _merged(here: Any, edit: Any) -> Any:
    if not isinstance(edit, dict):
        return copy.deepcopy(edit)
    if "=" in edit:
        return copy.deepcopy(edit["="])
    if isinstance(here, list) and any(key == "+" or isinstance(key, int) for key in edit):
        places = [
            _merged(each, edit[place]) if place in edit else each for place, each in enumerate(here)
        ]
        return places + copy.deepcopy(edit.get("+", []))
    merged = dict(here) if isinstance(here, dict) else {}
    return {**merged, **{key: _merged(merged.get(key), item) for key, item in edit.items()}}
