"""Attempts to switch the gate off by its settings: each is rejected, or shown in the verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inferplan.commands.check.command import render
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report, check_stack
from inferplan.policies.engine.settings import SettingsError
from inferplan.policies.engine.settings_reader import parse_settings, read_settings
from tests.policies.cases import base, changed, recording_of

DAY = "2026-11-21"
LINKS = "pod-disallow-service-links"
FIELD = "spec.template.spec.enableServiceLinks"
ENTRY = {
    "rule": LINKS,
    "resource": "Deployment/chat",
    "path": FIELD,
    "state": "violation",
    "reason": "r",
    "owner": "o",
    "expires": "2027-01-01",
}


def settings(**given: Any):
    return parse_settings(given, all_rules(), DAY, where="here")


def rejection(**given: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(**given)
    return str(caught.value)


def verdict(edits: dict[str, Any], **given: Any) -> Report:
    return check_stack(stack_of(changed("Deployment/chat", edits)), settings(**given))


def table(report: Report) -> str:
    return " ".join(render([report], "table").split())


@pytest.mark.parametrize("key", ["resource", "path"])
@pytest.mark.parametrize("pattern", ["*", "Deployment/*", "Deployment/cha?", "spec.*"])
def test_a_pattern_in_an_exemption_is_rejected(key, pattern):
    assert f"exemptions[0].{key}: {pattern!r} is a pattern" in rejection(
        exemptions=[{**ENTRY, key: pattern}]
    )


def test_brackets_in_a_name_are_not_a_pattern():
    """They are in paths, and a name that holds them is compared as it is."""
    report = verdict({FIELD: True}, exemptions=[{**ENTRY, "resource": "Deployment/[a-z]hat"}])
    assert [each.rule.id for each in report.violations] == [LINKS]


@pytest.mark.parametrize(
    "missing", ["rule", "resource", "path", "state", "reason", "owner", "expires"]
)
def test_an_exemption_without_one_of_its_keys_is_rejected(missing):
    assert f"exemptions[0] lacks {missing}" in rejection(
        exemptions=[{key: each for key, each in ENTRY.items() if key != missing}]
    )


@pytest.mark.parametrize(
    ("expires", "accepted"), [("2027-11-21", True), ("2027-11-22", False), ("9999-12-31", False)]
)
def test_an_exemption_ends_within_a_year(expires, accepted):
    entry = {**ENTRY, "expires": expires}
    if accepted:
        assert settings(exemptions=[entry]).exemptions[0].expires == expires
    else:
        assert "is more than 365 days ahead. Use 2027-11-21 or an earlier day" in rejection(
            exemptions=[entry]
        )


def test_the_whole_pack_cannot_be_excused_by_a_defect_or_another_state():
    assert "'defect' is not a state. Use one of violation, unknown" in rejection(
        exemptions=[{**ENTRY, "state": "defect"}]
    )


@pytest.mark.parametrize(
    "over",
    [
        {"path": "spec.template.spec"},
        {"resource": "Deployment/other"},
        {"rule": "pod-disallow-token-mount"},
        {"state": "unknown"},
    ],
)
def test_an_exemption_of_another_rule_resource_path_or_state_covers_nothing_and_is_reported(over):
    report = verdict({FIELD: True}, exemptions=[{**ENTRY, **over}])
    assert [each.rule.id for each in report.violations] == [LINKS]
    assert len(report.unused) == 1
    assert "has no effect" in table(report)


def test_disabled_and_lowered_rules_are_listed_and_the_rules_that_ran_are_counted():
    report = verdict(
        {FIELD: True},
        levels={
            LINKS: "disabled",
            "image-disallow-latest": "advisory",
            "image-require-digest": "disabled",
        },
    )
    assert not report.blocked
    text = table(report)
    assert f"lowered: {LINKS}: disabled instead of mandatory" in text
    assert "lowered: image-disallow-latest: advisory instead of mandatory" in text
    # One rule is off in the pack itself.
    assert f"{len(all_rules()) - 2} of {len(all_rules())} rules ran" in text
    assert {LINKS, "image-require-digest"} & {*report.disabled}
    assert all(f", not {each}" in text.splitlines()[0] for each in report.disabled)
    assert not [line for line in text.splitlines() if line.endswith(" ")]


def test_every_rule_but_the_one_that_is_off_in_the_pack_runs_without_settings():
    report = verdict({})
    assert report.rules == len(all_rules()) - 1
    assert report.changes == ()


def test_a_stricter_level_is_not_called_lowered():
    report = verdict({}, levels={"object-require-managed-by": "mandatory"})
    assert [each.lowered for each in report.changes] == [False]
    assert "stricter: object-require-managed-by: mandatory instead of advisory" in table(report)


def test_changed_parameters_are_listed():
    text = table(
        verdict(
            {},
            parameters={
                "image-restrict-registries": {"registries": ["docker.io", "registry.example"]}
            },
        )
    )
    assert (
        "lowered: image-restrict-registries.registries: docker.io, registry.example instead of"
        " docker.io, ghcr.io" in text
    )


@pytest.mark.parametrize("value", ["*", "**", "*:*", "", "*/*"])
def test_a_parameter_that_allows_everything_is_rejected(value):
    assert "matches everything" in rejection(
        parameters={"iam-disallow-wildcard-resources": {"actions": ["ec2:Describe*", value]}}
    )


def test_a_key_that_stands_twice_is_rejected(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"exemptions": [], "exemptions": [' + json.dumps(ENTRY) + "]}")
    with pytest.raises(SettingsError, match="'exemptions' occurs twice"):
        read_settings(path, all_rules(), DAY)


def test_the_key_that_let_unknowns_pass_is_gone():
    assert "'allowNotEvaluated' is not a key" in rejection(allowNotEvaluated=[LINKS])


TYPE = {
    "type": "command:local:Command",
    "reason": "r",
    "owner": "platform",
    "expires": "2027-01-01",
}
UNSEEN = "stack-disallow-unseen-objects"


def unseen(type_: str, **given: Any) -> list[str]:
    added = {"type": type_, "name": "setup", "inputs": {"create": "true"}, "provider": "p"}
    report = check_stack(stack_of(recording_of([*base(), added])), settings(**given))
    return [each.message for each in report.violations if each.rule.id == UNSEEN]


@pytest.mark.parametrize(
    "type_",
    [
        "command:local:Command",
        "docker:index/container:Container",
        "pulumi-python:dynamic:Resource",
        "gcp:container/cluster:Cluster",
        "kubernetes:yaml/v2:ConfigFile",
        "kubernetes:kustomize/v2:Directory",
        "kubernetes:acme.example/v1:Tunnel",
        "aws:lightsail/instance:Instance",
    ],
)
def test_a_type_that_no_rule_knows_is_a_violation_until_the_settings_accept_it(type_):
    assert len(unseen(type_)) == 1
    assert unseen(type_, acceptedTypes=[{**TYPE, "type": type_}]) == []
    assert len(unseen(type_, acceptedTypes=[{**TYPE, "type": f"{type_}s"}])) == 1


def test_an_accepted_type_that_expired_is_a_violation_again_and_says_so():
    (message,) = unseen(TYPE["type"], acceptedTypes=[{**TYPE, "expires": "2026-11-20"}])
    assert "its entry in acceptedTypes expired on 2026-11-20" in message


def test_an_accepted_type_shows_in_the_verdict():
    assert (
        "lowered: acceptedTypes.command:local:Command: accepted until 2027-01-01 (owner: platform)"
        " because r, instead of a violation" in table(verdict({}, acceptedTypes=[TYPE]))
    )


@pytest.mark.parametrize("missing", ["type", "reason", "owner", "expires"])
def test_an_accepted_type_without_one_of_its_keys_is_rejected(missing):
    said = rejection(acceptedTypes=[{key: each for key, each in TYPE.items() if key != missing}])
    assert (
        f"acceptedTypes[0] lacks {missing}. An accepted type needs type, reason, owner, expires"
        in said
    )


def test_a_pattern_of_types_or_a_key_of_another_name_is_rejected():
    assert "acceptedTypes[0].type: 'command:*' is a pattern" in rejection(
        acceptedTypes=[{**TYPE, "type": "command:*"}]
    )
    assert "'acceptedtypes' is not a key. Did you mean acceptedTypes?" in rejection(
        acceptedtypes=[TYPE]
    )
    assert "acceptedTypes[0].expires: 9999-12-31 is more than 365 days ahead" in rejection(
        acceptedTypes=[{**TYPE, "expires": "9999-12-31"}]
    )


def test_a_component_of_another_program_is_no_resource():
    added = {"type": "acme:platform:Team", "name": "search", "inputs": {}, "component": True}
    report = check_stack(stack_of(recording_of([*base(), added])), settings())
    assert [each.message for each in report.violations] == []
