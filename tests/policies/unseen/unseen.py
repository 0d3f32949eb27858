"""The unseen set: faults and near misses that were written, with what to expect of each, before the
rules were read.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from inferplan.errors import ProgramFailed
from inferplan.planning.policy_check import judge, stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.pulumi_engine.recording import Recording
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import Report, make_report
from tests.policies.cases import ABSENT, keys_of, put, recording_of
from tests.policies.corpus import SETTINGS
from tests.review.verdicts.change import ROOT, recorded, text_of

FOLDER = Path(__file__).parent
STOPPED, CALM = "stopped", "calm"
RANKS = ("critical", "disruptive")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to a case: `rules` that newly block it, the severity of its first risk (or
    calm), and what was said.
    """

    rules: tuple[str, ...]
    severity: str
    words: tuple[str, ...]


def load(name: str) -> Any:
    return yaml.load((FOLDER / f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader)


@cache
def plain() -> Mapping[str, Any]:
    first, others = load("plain"), map(load, ("plain-3", "plain-4", "plain-5"))
    own = ({**each, "base": other["base"]} for other in others for each in other["cases"])
    return {**first, "cases": [*first["cases"], *load("plain-2")["cases"], *own]}


def base_of(case: Mapping[str, Any]) -> Mapping[str, Any]:
    return case.get("base") or plain()["base"]


def edited(value: Mapping[str, Any], edits: Mapping[str, Any]) -> Any:
    result = copy.deepcopy(dict(value))
    for path, new in edits.items():
        put(result, keys_of(path), ABSENT if new is None else copy.deepcopy(new))
    return result


def listed(resources: Mapping[str, Any]) -> Recording:
    return recording_of(
        [
            {
                "protect": each["type"].startswith("aws:"),
                "name": name,
                **each,
                "inputs": each["props"],
            }
            for name, each in resources.items()
        ]
    )


def resources_of(case: Mapping[str, Any]) -> dict[str, Any]:
    base = dict(base_of(case))
    if "of" in case:
        base[case["of"]] = {
            **base[case["of"]],
            "props": edited(base[case["of"]]["props"], case["set"]),
        }
    return {
        name: each
        for name, each in (base | case.get("add", {})).items()
        if name not in case.get("drop", ())
    }


def violations(resources: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    report = check_stack(stack_of(listed(resources)), SETTINGS)
    return {(each.rule.id, each.resource, each.path) for each in report.violations}


@cache
def base_violations() -> frozenset[tuple[str, str, str]]:
    return frozenset(violations(plain()["base"]))


def plain_outcome(case: Mapping[str, Any]) -> Outcome:
    new = violations(resources_of(case)) - (set() if "base" in case else base_violations())
    severity, words = (
        report_of(listed(base_of(case)), listed(resources_of(case)))
        if case["want"] in (*RANKS, CALM)
        else ("", ())
    )
    return Outcome(
        tuple(sorted({rule for rule, *_ in new})), severity, words or tuple(map(str, sorted(new)))
    )


def report_of(before: Recording, after: Recording) -> tuple[str, tuple[str, ...]]:
    from inferplan.pulumi_engine.plan.events import events_of, to_ndjson
    from inferplan.pulumi_engine.plan.steps import make_plan

    plan = make_plan(after, make_plan(before).states)
    return first_risk(make_report([read_bytes(to_ndjson(events_of(plan, against="main")))]))


def first_risk(report: Report) -> tuple[str, tuple[str, ...]]:
    # A plan without the pack's verdict is a risk of its own.
    risks = [
        each
        for each in report.stacks[0].risks
        if each.weight < 2 and "pack" not in each.kind.lower()
    ]
    words = tuple(
        f"{each.weight} {each.what} {each.kind} {each.name}: {each.cause} => {each.consequence}"
        for each in risks
    )
    return (RANKS[min(each.weight for each in risks)] if risks else CALM), words


@cache
def stacks() -> tuple[Mapping[str, Any], ...]:
    return (*load("stacks")["cases"], *load("stacks-2")["cases"])


def stack_outcome(case: Mapping[str, Any]) -> Outcome:
    """The outcome of the one-line change of a stack file; what validation rejects is blocked by the
    rule `validation`.
    """
    text = text_of(case["stack"])
    before = recorded(case["stack"], text)
    try:
        after = recorded(case["stack"], with_edits(text, case["set"]))
    except ProgramFailed as error:
        return Outcome(("validation",), "", (f"{type(error).__name__}: {error}",))
    old, new = (
        {(each.rule.id, each.resource, each.path) for each in judge(one, ROOT).violations}
        for one in (before, after)
    )
    severity, words = report_of(before, after)
    return Outcome(tuple(sorted({rule for rule, *_ in new - old})), severity, words)


def with_edits(text: str, edits: Mapping[str, Any]) -> str:
    content = yaml.load(text, Loader=yaml.CSafeLoader)
    content["config"] = edited(
        content["config"], {f"inferplan:{path}": new for path, new in edits.items()}
    )
    return yaml.dump(content, sort_keys=False)


def changed_types(type_: str) -> tuple[set[str], str, str, str]:
    """The rules that block a resource of `type_`, and the severity of its creation, change and
    deletion.
    """
    is_object = type_.startswith("kubernetes:")
    props = (
        {"metadata": {"name": "x"}, "spec": {"size": 1}} if is_object else {"name": "x", "size": 1}
    )
    base = plain()["base"]
    old, new = (
        base
        | {
            "thing": {
                "type": type_,
                "props": edited(props, {"spec.size" if is_object else "size": size}),
            }
        }
        for size in (1, 2)
    )
    rules = {rule for rule, *_ in violations(old) - base_violations()}
    steps = ((base, old), (old, new), (old, base))
    created, changed, deleted = (report_of(listed(one), listed(other))[0] for one, other in steps)
    return rules, created, changed, deleted
