from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.evaluate import State
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report, check_stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Settings
from inferplan.pulumi_engine.values import reveal
from tests.policies import rows_access, rows_aws, rows_cluster, rows_pods, rows_stack
from tests.policies.cases import PASS, REFUSED, Case, cases_of, changed

TODAY = "2026-11-21"
ROWS = (*rows_pods.ROWS, *rows_cluster.ROWS, *rows_access.ROWS, *rows_aws.ROWS, *rows_stack.ROWS)
CASES = [case for row in ROWS for case in cases_of(row)]


def only(rule: str, parameters: dict[str, Any] | None = None) -> Settings:
    levels = {name: Level.MANDATORY if name == rule else Level.DISABLED for name in all_rules()}
    return Settings(today=TODAY, levels=levels, parameters={rule: parameters or {}})


def verdict(case: Case):
    """What the rule says of the case; several tests read it."""
    if id(case) not in _verdicts:
        _verdicts[id(case)] = check_stack(case.stack(), only(case.row.rule, case.row.parameters))
    return _verdicts[id(case)]


_verdicts: dict[int, Report] = {}


def test_the_base_stack_obeys_every_rule():
    report = check_stack(stack_of(changed("", {})), Settings(today=TODAY))
    assert [outcome.message for outcome in (*report.violations, *report.advice)] == []


def test_every_rule_has_cases():
    covered = {row.rule for row in ROWS} | {rule for rule, *_ in rows_stack.OPTIONS}
    assert covered == set(all_rules())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_says_what_its_case_expects(case):
    states = {outcome.state for outcome in verdict(case).violations}
    told = (
        PASS if not states else REFUSED if State.VIOLATION in states else State.NOT_EVALUATED.value
    )
    assert State.DEFECT not in states
    assert told == case.expected


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("secret", "bad")], ids=str
)
def test_a_message_repeats_no_value_of_the_resource(case):
    rule = all_rules()[case.row.rule]
    own_words = (
        f"{rule.remedy} {rule.id}"
        f" {' '.join(map(str, (p.default for p in rule.parameters.values())))}"
    )
    for outcome in verdict(case).violations:
        said = f"{outcome.path} {outcome.problem}"
        for text in texts(reveal(case.value)):
            if len(text) >= 6 and text not in own_words:
                assert not re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", said), said


def texts(value: Any):
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize(
    ("card", "expected"),
    [("nvidia.com/gpu", PASS), ("nvidia.com/mig-3g.40gb", PASS), ("habana.ai/gaudi", REFUSED)],
)
def test_only_the_vendor_whose_hook_writes_into_the_root_is_let_write(card, expected):
    one = "spec.template.spec.containers[0]"
    edit = {
        f"{one}.securityContext.readOnlyRootFilesystem": False,
        f"{one}.resources": {"limits": {card: 1}},
    }
    told = check_stack(
        stack_of(changed("Job/chat-preheat", edit)), only("pod-require-read-only-root")
    ).violations
    assert (REFUSED if told else PASS) == expected


@pytest.mark.parametrize(("rule", "resource", "option", "value", "expected"), rows_stack.OPTIONS)
def test_a_rule_on_options_tells_bad_from_good(rule, resource, option, value, expected):
    edit = {"resource": None} if option == "resource" else {f"@{option}": value}
    told = check_stack(stack_of(changed(resource, edit)), only(rule)).violations
    assert (REFUSED if told else PASS) == expected


def test_every_rule_has_six_cases_or_more():
    cases = Counter([case.row.rule for case in CASES] + [rule for rule, *_ in rows_stack.OPTIONS])
    assert {rule: count for rule, count in cases.items() if count < 6} == {}


def test_a_secret_at_a_mandatory_place_is_judged_like_any_value():
    by_name = {(id(case.row), case.name): case for case in CASES}
    for case in CASES:
        if case.name == "secret":
            plain = [
                outcome.message for outcome in verdict(by_name[id(case.row), "bad"]).violations
            ]
            assert [outcome.message for outcome in verdict(case).violations] == plain
