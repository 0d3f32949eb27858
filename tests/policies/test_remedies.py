"""Every remedy works: its fix makes the rule pass and breaks no other, here and in the pack."""

from __future__ import annotations

import re
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Settings, today
from inferplan.pulumi_engine.values import reveal
from tests.policies import rows_stack
from tests.policies.analyzer import MANDATORY, analyze, configure, pack
from tests.policies.cases import REFUSED, Case, base, changed, edited, label, recording_of
from tests.policies.remedies import fix_of, names_of, repaired, steps_for
from tests.policies.test_rules import CASES, only

OUTSIDE = {
    "stack-disallow-unseen-objects": (
        "the object is declared by another resource, or accepted in the settings"
    ),
}
"""Rules whose remedy is no change of one field or resource, and why."""
RAISED = (
    "image-require-digest",
    "object-require-managed-by",
    "s3-require-logging",
)
"""Rules that do not block by default, but here."""
LEVELS = dict.fromkeys(RAISED, Level.MANDATORY)


def bad_stacks() -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """Each case that a rule refuses: the rule, and the resources."""
    stacks = {}
    for case in CASES:
        if case.expected == REFUSED and case.name not in ("secret", "unknown"):
            stacks[_name(stacks, str(case))] = (case.row.rule, listed_of(case))
    for rule, resource, option, value, expected in rows_stack.OPTIONS:
        if expected == REFUSED:
            edits = {f"@{option}": value}
            stacks[_name(stacks, f"{rule}-{resource}")] = (
                rule,
                [edited(each, edits) if label(each) == resource else each for each in base()],
            )
    return stacks


def _name(taken: dict[str, Any], name: str) -> str:
    return f"{name}-{sum(1 for each in taken if each.startswith(name))}"


def listed_of(case: Case) -> list[dict[str, Any]]:
    edits = reveal(case._edits())
    return [edited(each, edits) if label(each) == case.row.resource else each for each in base()]


BAD = bad_stacks()


def outcomes_of(listed: list[dict[str, Any]]) -> list[Any]:
    settings = Settings(today=today(), levels=LEVELS)
    return list(check_stack(stack_of(recording_of(listed)), settings).violations)


def of(rule: str, outcomes: list[Any]) -> list[Any]:
    return [each for each in outcomes if each.rule.id == rule]


def rules_of(outcomes: list[Any]) -> set[tuple[str, str]]:
    return {(each.rule.id, each.resource) for each in outcomes}


def remedied(name: str) -> tuple[str, list[dict[str, Any]], list[Any]]:
    rule, listed = BAD[name]
    before = outcomes_of(listed)
    assert of(rule, before)
    fixed = repaired(listed, of(rule, before))
    return rule, fixed, before


def sampled(step: int = 1) -> list[Any]:
    """The first bad stack of every `step`th rule, and in the whole suite all of them."""
    first = {rule: name for name, (rule, _) in reversed(BAD.items())}
    often = [name for name in BAD if name in first.values()][::step]
    return [
        pytest.param(name, marks=() if name in often else pytest.mark.full)
        for name, (rule, _) in BAD.items()
        if rule not in OUTSIDE
    ]


@pytest.mark.parametrize("name", sampled(4))
def test_the_fix_of_a_rule_makes_it_pass_and_breaks_no_other(name):
    rule, fixed, before = remedied(name)
    after = outcomes_of(fixed)
    assert [each.message for each in of(rule, after)] == []
    assert rules_of(after) - rules_of(before) == set(), [
        each.message for each in after if (each.rule.id, each.resource) not in rules_of(before)
    ]


@pytest.fixture(scope="module")
def stub():
    with pack() as running:
        configure(running, {"levels": dict.fromkeys(RAISED, "mandatory")})
        yield running


@pytest.mark.parametrize("name", sampled(8))
def test_the_fix_works_in_the_policy_pack_of_the_pulumi_cli(stub, name):
    """The protocol of the pack carries less than the program knows: no `retainOnDelete`."""
    rule, fixed, before = remedied(name)
    touched = {label(each) for each in fixed if each not in base()}
    told = [
        re.findall(r"\[([a-z0-9-]+)\] ", each.message)
        for each in analyze(stub, recording_of(fixed), only=touched)
        if each.enforcementLevel == MANDATORY
    ]
    assert all(told)
    said = {name for (name, *_) in told}
    assert rule not in said
    assert said <= {each.rule.id for each in before}


ROUTER = "docker.io/lmcache/lmstack-router"


def test_a_router_gets_a_token_of_its_own(stub):
    """The other half of that remedy is a setting, and a token that expires."""
    rule, pod = "pod-disallow-token-mount", "spec.template.spec"
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    edits = {
        f"{pod}.volumes[1]": {"name": "shm", "projected": {"sources": [token]}},
        f"{pod}.containers[0].image": f"{ROUTER}:v0.1.5",
    }
    recording = changed("Deployment/chat", edits)
    said = {}
    for controllers in ([], [ROUTER]):
        configure(stub, {"parameters": {rule: {"controllers": controllers}}})
        said[len(controllers)] = [
            each
            for each in analyze(stub, recording, only="Deployment/chat")
            if f"[{rule}]" in each.message
        ]
    configure(stub, {"levels": dict.fromkeys(RAISED, "mandatory")})
    assert [bool(said[0]), bool(said[1])] == [True, False]


@pytest.mark.parametrize(
    ("image", "passes"),
    [
        ("ray-llm:2.44.0-vllm0.7.2", False),
        ("ray-llm:2.44.0-py311-cu124", False),
        ("ray-llm:2.60.0-vllm0.22.1", True),
    ],
)
def test_the_image_of_ray_names_the_version_of_vllm_as_the_remedy_says(image, passes):
    rule = "model-require-vllm-floor"
    edits = {"spec.template.spec.containers[0].image": f"docker.io/rayproject/{image}"}
    told = check_stack(stack_of(changed("Deployment/chat", edits)), only(rule)).violations
    assert (not told) is passes
    assert not passes or image.partition(":")[2] in all_rules()[rule].remedy


def test_every_rule_has_a_fix_or_a_reason_why_not():
    assert {rule for rule in all_rules() if not fix_of(rule)} == set(OUTSIDE)
    assert {rule for rule, _ in BAD.values()} == set(all_rules())


def test_a_case_applies_every_step_of_every_remedy():
    applied = {
        (rule, repr(step))
        for rule, listed in BAD.values()
        for outcome in check_stack(stack_of(recording_of(listed)), only(rule)).violations
        for step, _ in steps_for(outcome)
    }
    every = {(rule, repr(step)) for rule in all_rules() for step in fix_of(rule)}
    assert every - applied == set()


ANY_FIELD = ("aws-restrict-settings", "object-restrict-settings")
"""Rules on many fields, which say which in each violation."""


def test_the_text_of_a_remedy_names_every_place_that_its_fix_changes():
    unnamed = set()
    for rule, listed in BAD.values():
        text = all_rules()[rule].remedy.lower()
        for outcome in check_stack(stack_of(recording_of(listed)), only(rule)).violations:
            unnamed |= {
                (rule, *sorted(names_of(step, keys)))
                for step, keys in steps_for(outcome)
                if not any(name in text for name in names_of(step, keys))
            }
    assert {each for each in unnamed if each[0] not in ANY_FIELD} == set()
    assert all("the field" in all_rules()[rule].remedy for rule in ANY_FIELD)
