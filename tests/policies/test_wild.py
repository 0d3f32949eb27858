"""Manifests that no component of ours wrote: what each rule says of them, and that no other rule
says anything.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.policies.engine.evaluate import State
from inferplan.policies.engine.fields import UNKNOWN
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Settings

FOLDER = Path(__file__).parent / "wild"
CASES = [
    case
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
]
# What every stranger breaks: our label, and a provider, which a resource alone does not have.
STRANGE = ("object-require-managed-by", "stack-disallow-several-providers")
# A workload alone has no network policy beside it.
OF_NO_STACK = {"stack-require-default-deny", "stack-require-policy-before-models"}
SETTINGS = Settings(today="2026-11-21", levels=dict.fromkeys(STRANGE, Level.DISABLED))


def stack_of(case: dict[str, Any]) -> Stack:
    listed: list[dict[str, Any]] = [
        {**case, "name": "subject"},
        *({"name": f"beside-{place}", **each} for place, each in enumerate(case.get("beside", ()))),
    ]
    urns = {each["name"]: f"urn:pulumi:wild::p::{each['type']}::{each['name']}" for each in listed}
    return Stack(
        "wild",
        [
            Resource(
                type=each["type"],
                urn=urns[each["name"]],
                name=each["name"],
                inputs=each["inputs"],
                protect=each.get("protect", False),
                dependencies=tuple(urns[name] for name in each.get("dependencies", ())),
            )
            for each in listed
        ],
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_manifest_from_elsewhere_is_judged_by_the_rules_that_it_breaks_and_no_other(case):
    report = check_stack(stack_of(case), SETTINGS)
    outcomes = (*report.violations, *report.advice)
    assert [each.message for each in outcomes if each.state is not State.VIOLATION] == []
    expected = set(case["told"])
    assert expected <= set(all_rules())
    assert {each.rule.id for each in outcomes} - (OF_NO_STACK - expected) - set(
        case.get("beside_told", ())
    ) == expected


# What an expression, a slip of indentation or another API's spelling leaves where something else
# belongs.
MISPLACED = (
    UNKNOWN,
    None,
    "x",
    "",
    5,
    -1,
    True,
    [],
    {},
    ["x"],
    [None],
    {"a": [1]},
    [UNKNOWN],
    {"a": UNKNOWN},
    "9e999",
    "%",
    "1/0",
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(item, (*path, key))


def misplaced(resource: Resource, path: tuple[str | int, ...], value: Any) -> Resource:
    inputs: Any = copy.deepcopy(dict(resource.inputs))
    here = inputs
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return dataclasses.replace(resource, inputs=inputs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_whatever_stands_in_the_wrong_place_breaks_no_rule(case):
    stack = stack_of(case)
    dice = random.Random(case["name"])  # noqa: S311 - a sample that is the same in every run
    for resource in stack:
        listed = list(places(dict(resource.inputs)))
        for _ in range(6):
            path, value = dice.choice(listed), dice.choice(MISPLACED)
            changed = misplaced(resource, path, value)
            report = check_stack(
                Stack("wild", [changed if each is resource else each for each in stack]), SETTINGS
            )
            assert [
                each.message for each in report.violations if each.state is State.DEFECT
            ] == [], (path, value)
