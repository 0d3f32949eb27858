from __future__ import annotations

from datetime import date, timedelta

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings, today
from inferplan.pulumi_engine.values import UNKNOWN, Secret, from_wire
from tests.policies import rows_stack
from tests.policies.analyzer import (
    MANDATORY,
    _empty,
    analyze,
    analyze_stack,
    configure,
    pack,
    remediated,
)
from tests.policies.cases import ABSENT, REFUSED, Case, base, changed, edited, label, recording_of
from tests.policies.test_rules import CASES

KEY = "canary-hunter2"


@pytest.fixture(scope="module")
def stub():
    with pack() as running:
        configure(running, {})
        yield running


def spoken(diagnostics) -> set[tuple[bool, str, str]]:
    """Level, resource and message of each diagnostic, without the description that the SDK puts
    before every message.
    """
    return {
        (each.enforcementLevel == MANDATORY, each.urn, each.message.partition("\n")[2])
        for each in diagnostics
    }


def direct(recording) -> set[tuple[bool, str, str]]:
    report = check_stack(stack_of(recording), Settings(today=today()))
    return {
        (
            refused,
            outcome.urn if _names_resource(outcome) else "",
            _prefix(outcome) + outcome.message,
        )
        for refused, outcomes in ((True, report.violations), (False, report.advice))
        for outcome in outcomes
    }


def _names_resource(outcome) -> bool:
    """Resources' own diagnostics come back without a URN: the engine knows which resource it asked
    about.
    """
    return outcome.state == "not evaluated" or outcome.rule.subject is None


def _prefix(outcome) -> str:
    return "not evaluated: " if outcome.state == "not evaluated" else ""


def test_few_policies_are_registered(stub):
    info = stub.GetAnalyzerInfo(_empty())
    assert len(info.policies) <= 8
    assert len(all_rules()) >= 50
    assert info.supportsConfig


SPOKEN = [case for case in CASES if case.name in ("bad", "secret", "unknown")]
# Each case sends a whole stack: every run has one of every sixth rule, the three kinds in turn;
# `make test-full` has all. What each rule says is asserted without a process in test_rules.
BY_RULE: dict[str, list[Case]] = {}
for spoken_case in SPOKEN:
    BY_RULE.setdefault(spoken_case.row.rule, []).append(spoken_case)
OFTEN = [cases[place // 6 % 3] for place, cases in enumerate(BY_RULE.values()) if place % 6 == 0]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case in OFTEN else pytest.mark.full) for case in SPOKEN],
    ids=str,
)
def test_the_pack_says_over_grpc_what_a_direct_check_says(stub, case):
    configure(
        stub, {"parameters": {case.row.rule: case.row.parameters}} if case.row.parameters else {}
    )
    settings = Settings(today=today(), parameters={case.row.rule: case.row.parameters})
    recording = case.recording()
    report = check_stack(stack_of(recording), settings)
    told = {
        (refused, message)
        for refused, _urn, message in spoken(analyze(stub, recording, only=case.row.resource))
    }
    expected = {(True, _prefix(each) + each.message) for each in report.violations} | {
        (False, each.message) for each in report.advice
    }
    assert told == expected


def test_the_base_stack_passes_over_grpc(stub):
    configure(stub, {})
    assert analyze(stub, changed("", {})) == []


def test_findings_name_their_resources(stub):
    configure(stub, {})
    recording = changed(
        "Deployment/chat", {"spec.replicas": 9, "spec.template.spec.enableServiceLinks": UNKNOWN}
    )
    assert spoken(analyze(stub, recording)) == direct(recording)


def test_an_unknown_of_a_rule_on_the_stack_is_told_of_its_resource_beside_a_violation_of_another(
    stub,
):
    configure(stub, {})
    edits = {
        "Deployment/chat": {"spec.replicas": 9},
        "LeaderWorkerSet/wide": {"spec.replicas": UNKNOWN},
    }
    recording = recording_of([edited(each, edits.get(label(each), {})) for each in base()])
    diagnostics = [
        each
        for each in analyze_stack(stub, recording)
        if "[stack-require-pool-capacity]" in each.message
    ]
    assert {(each.policyName, each.urn.rpartition("::")[2]) for each in diagnostics} == {
        ("inferplan-stack-mandatory", "chat"),
        ("inferplan-not-evaluated", "wide"),
    }


def test_an_unknown_becomes_a_refusal_and_never_advice(stub):
    configure(stub, {})
    recording = changed("Deployment/chat", {"spec.template.spec.enableServiceLinks": UNKNOWN})
    diagnostics = analyze(stub, recording)
    assert {each.policyName for each in diagnostics} == {"inferplan-not-evaluated"}
    assert {each.enforcementLevel for each in diagnostics} == {MANDATORY}


LINKS = "pod-disallow-service-links"
FIELD = "spec.template.spec.enableServiceLinks"


def exemption(state, **over):
    entry = {
        "rule": LINKS,
        "resource": "Deployment/chat",
        "path": FIELD,
        "state": state,
        "reason": "r",
        "owner": "o",
    }
    return {
        **entry,
        "expires": (date.fromisoformat(today()) + timedelta(days=30)).isoformat(),
        **over,
    }


@pytest.mark.parametrize(("excused", "other"), [("unknown", "violation"), ("violation", "unknown")])
def test_an_exemption_covers_its_own_state_and_no_other(stub, excused, other):
    configure(stub, {"exemptions": [exemption(excused)]})
    values = {"unknown": UNKNOWN, "violation": True}
    said = {
        state: {
            each.policyName for each in analyze(stub, changed("Deployment/chat", {FIELD: value}))
        }
        for state, value in values.items()
    }
    configure(stub, {})
    assert said[excused] == {"inferplan-exemptions"}
    assert said[other] <= {"inferplan-mandatory", "inferplan-not-evaluated"}
    assert said[other]


def test_a_lowered_rule_is_reported_beside_what_it_lets_through(stub):
    configure(
        stub,
        {
            "levels": {LINKS: "disabled"},
            "parameters": {
                "image-restrict-registries": {"registries": ["docker.io", "vllm.example"]}
            },
        },
    )
    said = [
        each.message.partition("\n")[2]
        for each in analyze(stub, changed("Deployment/chat", {FIELD: True}))
    ]
    configure(stub, {})
    assert f"lowered by the settings of this stack: {LINKS}: disabled instead of mandatory" in said
    assert any(
        "image-restrict-registries.registries: docker.io, vllm.example instead of" in each
        for each in said
    )


def test_no_secret_is_in_any_message_of_the_pack(stub):
    configure(stub, {})
    recording = changed(
        "Deployment/chat",
        {"spec.template.spec.containers[0].env[1]": {"name": "VLLM_API_KEY", "value": Secret(KEY)}},
    )
    said = analyze(stub, recording)
    assert said
    assert not any(KEY in str(each) for each in said)


def test_an_exemption_in_the_configuration_holds(stub):
    entry = exemption("violation")
    configure(stub, {"exemptions": [entry]})
    recording = changed("Deployment/chat", {"spec.template.spec.enableServiceLinks": True})
    assert spoken(analyze(stub, recording)) == {
        (
            False,
            "",
            (
                f"exempt until {entry['expires']} (owner: o): Deployment/chat {FIELD} from {LINKS},"
                " state violation, because r"
            ),
        )
    }
    assert {each.policyName for each in analyze(stub, recording)} == {"inferplan-exemptions"}
    configure(stub, {"exemptions": [exemption("violation", expires="2020-01-01")]})
    said = [each.message for each in analyze(stub, recording)]
    assert any("expired on 2020-01-01" in each for each in said)
    assert any("[pod-disallow-service-links]" in each for each in said)
    configure(stub, {})


def test_settings_with_faults_refuse_every_resource_and_say_what_is_wrong(stub):
    configure(stub, {"levels": {"image-disallow-lates": "off"}})
    said = spoken(analyze(stub, changed("", {}), only="Deployment/chat"))
    configure(stub, {})
    assert {mandatory for mandatory, _urn, _message in said} == {True}
    (message,) = {message for _mandatory, _urn, message in said}
    assert "Did you mean image-disallow-latest?" in message


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("spec.template.spec.enableServiceLinks", True, "pod-disallow-service-links"),
        ("spec.template.spec.automountServiceAccountToken", ABSENT, "pod-disallow-token-mount"),
        ("metadata.labels", ABSENT, "object-require-managed-by"),
    ],
)
def test_a_remediation_changes_its_field_and_keeps_secrets_secret(stub, path, value, rule):
    entry = {"name": "NOTE", "value": Secret(KEY)}
    recording = changed(
        "Deployment/chat",
        {path: value, "spec.template.spec.containers[0].env[1]": entry, "spec.paused": UNKNOWN},
    )
    broken = recording.one("kubernetes:apps/v1:Deployment", "chat")
    configure(stub, {}, remediate=True)
    (change,) = remediated(stub, broken)
    configure(stub, {})
    fixed = from_wire(change.properties)
    assert fixed["spec"]["paused"] is UNKNOWN
    assert fixed["spec"]["template"]["spec"]["containers"][0]["env"][1] == entry
    expected = changed(
        "Deployment/chat",
        {"spec.template.spec.containers[0].env[1]": entry, "spec.paused": UNKNOWN},
    )
    assert fixed == expected.one("kubernetes:apps/v1:Deployment", "chat").inputs, rule


def test_what_needs_no_remedy_is_left_alone(stub):
    configure(stub, {}, remediate=True)
    assert remediated(stub, changed("", {}).one("kubernetes:apps/v1:Deployment", "chat")) == []
    configure(stub, {})


def test_remediation_is_off_until_asked_for(stub):
    broken = changed("Deployment/chat", {"spec.template.spec.enableServiceLinks": True})
    assert remediated(stub, broken.one("kubernetes:apps/v1:Deployment", "chat")) == []


def test_options_of_resources_arrive(stub):
    for rule, resource, option, value, expected in rows_stack.OPTIONS:
        if expected == REFUSED:
            said = analyze_stack(stub, changed(resource, {f"@{option}": value}))
            assert any(f"[{rule}]" in each.message for each in said), (rule, resource)
