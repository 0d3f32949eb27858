"""What costs, what is open and what guards less is never green: one-line changes of single objects,
as an SRE fears them.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.planning.policy_check import stack_of
from inferplan.planning.violation_formats import packs
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings
from inferplan.pulumi_engine.plan.events import events_of, to_ndjson
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.recording import Options
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from tests.policies.cases import ABSENT, keys_of, put, recording_of


@cache
def listed() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("dangers.yaml").read_text())


def recording(objects: dict[str, Any], options: dict[str, Any]):
    plain = recording_of(
        [
            {"name": name, "type": each["type"], "inputs": each["props"]}
            for name, each in objects.items()
        ]
    )
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
    }
    return replace(
        plain, registrations=tuple(replace(each, options=Options(**values)) for each in plain)
    )


def report_on(case: dict[str, Any]):
    objects = listed()["objects"]
    others = {"other": objects["claim"]}
    name = case.get("create") or case.get("delete") or case["of"]
    before, after = ({**others, name: copy.deepcopy(objects[name])} for _ in range(2))
    if "create" in case:
        before = others
    elif "delete" in case:
        after = others
    else:
        for path, value in case["set"].items():
            put(after[name]["props"], keys_of(path), ABSENT if value is None else value)
    old, new = case.get("options", ({}, {}))
    plan = make_plan(recording(after, new), make_plan(recording(before, old)).states)
    return make_report([read_bytes(to_ndjson(events_of(plan, against="main")))])


def risks_of(case: dict[str, Any]) -> list[str]:
    risks = [each for each in report_on(case).stacks[0].risks if each.weight < 2]
    return [
        f"{each.what} {each.kind} {each.name}: {each.cause} => {each.consequence}" for each in risks
    ]


@pytest.mark.parametrize("case", listed()["dangers"], ids=lambda each: each["name"])
def test_a_danger_is_never_green_and_says_what_it_does(case):
    risks = risks_of(case)
    assert [
        word for word in case["want"] if not any(word.lower() in each.lower() for each in risks)
    ] == [], risks


@pytest.mark.parametrize("case", listed()["harmless"], ids=lambda each: each["name"])
def test_a_near_miss_stays_calm(case):
    assert [
        each for each in risks_of(case) if not each.startswith(tuple(case.get("calm", ())) or "\0")
    ] == []


def test_resources_that_the_pack_did_not_judge_are_a_risk():
    objects = listed()["objects"]
    resources = {name: objects[name] for name in ("claim", "service", "quota")}
    plan = make_plan(recording(resources, {}), make_plan(recording(resources, {})).states)
    report = check_stack(stack_of(recording(resources, {})), Settings(today="2026-11-28"))
    for judged, expected in ((3, []), (1, ["1 of 3 resources, 3 of which the base has too"])):
        events = events_of(plan, packs=packs(replace(report, judged=judged)))
        [stack] = make_report([read_bytes(to_ndjson(events))]).stacks
        causes = [each.cause for each in stack.risks if each.what == "was judged only in part"]
        assert causes == expected
        assert "resources judged" not in stack.policy_packs[0]


def test_a_report_says_that_an_ignored_image_is_not_rolled_out():
    [case] = [each for each in listed()["dangers"] if "image that stays" in each["name"]]
    [risk] = [each for each in risks_of(case) if "not roll out" in each]
    assert "spec.template.spec.containers[0].image" in risk
