from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from inferplan.policies.engine import evaluate
from inferplan.policies.engine.evaluate import State, evaluate_resource, label
from inferplan.policies.engine.fields import UNKNOWN, Field, MalformedFieldError, UnknownFieldError
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import make_report
from inferplan.policies.engine.resource import Resource
from inferplan.policies.engine.rule import Level, Violation
from inferplan.policies.engine.settings import Settings, SettingsError
from inferplan.policies.engine.settings_reader import parse_settings
from inferplan.policies.subjects.pods import CONTAINERS

SERVICE = Resource(
    type="kubernetes:core/v1:Service",
    urn="urn:pulumi:test::p::kubernetes:core/v1:Service::s",
    name="s",
    inputs={"spec": {}},
)
DAY = "2026-11-21"


def exemption(**over):
    listed = {
        "rule": "pod-disallow-privileged",
        "resource": "Pod/s",
        "path": "spec",
        "state": "unknown",
    }
    return {**listed, "reason": "r", "owner": "o", "expires": "2027-11-21", **over}


def refused(given):
    with pytest.raises(SettingsError) as caught:
        parse_settings(given, all_rules(), DAY, where="here")
    return str(caught.value)


def test_an_exception_in_a_rule_names_the_rule_fails_it_alone_and_repeats_no_value(monkeypatch):
    def raises(_part, _parameters) -> Iterator[Violation]:
        yield from ()
        raise ValueError("canary-secret")

    rules = evaluate.rules_for(SERVICE)
    broken = rules[0]._replace(check=raises)
    monkeypatch.setattr(evaluate, "rules_for", lambda _resource: (broken, *rules[1:]))
    outcomes = evaluate_resource(SERVICE, Settings(today=DAY), [Level.MANDATORY, Level.ADVISORY])
    (defect,) = [each for each in outcomes if each.state is State.DEFECT]
    assert defect.rule.id == rules[0].id
    assert "canary-secret" not in defect.message
    assert "ValueError" in defect.message
    assert {each.rule.id for each in outcomes} > {broken.id} or len(rules) == 1
    assert make_report("test", [defect], Settings(today=DAY)).blocked


def test_an_unknown_anywhere_on_the_way_cannot_be_read():
    with pytest.raises(UnknownFieldError, match=r"spec\.a\.b"):
        _ = Field({"spec": UNKNOWN}).at("spec", "a", "b").value


def test_a_field_of_another_type_is_told_with_its_path():
    with pytest.raises(MalformedFieldError, match=r"spec\.ports"):
        list(Field({"spec": {"ports": "8000"}}).at("spec", "ports").each())


def test_a_path_reads_as_people_write_it():
    field = next(iter(Field({"spec": {"a.b/c": [1]}}).at("spec", "a.b/c").each()))
    assert field.path == "spec['a.b/c'][0]"


def test_settings_tell_all_faults_at_once():
    said = refused(
        {
            "levels": {"nothing": "mandatory", "image-require-digest": "strict"},
            "parameters": {"image-restrict-registries": {"registries": "docker.io"}},
            "exemptions": [
                {
                    "rule": "image-require-digests",
                    "resource": "Pod/x",
                    "reason": " ",
                    "owner": "o",
                    "expires": "soon",
                }
            ],
        }
    )
    for part in (
        "'nothing' is not a rule",
        "'strict' is not a level. Use one of",
        "registries must be a list, each item a string",
        "lacks path, state, reason",
    ):
        assert part in said
    for part in ("Write it as YYYY-MM-DD", "Did you mean image-require-digest?"):
        assert part in said


@pytest.mark.parametrize(
    "given",
    [
        [],
        {"allowNotEvaluated": []},
        {"exemptions": [{"rule": {}}]},
        {"level": {}},
        {"levels": []},
        {"exemptions": ["x"]},
        {"parameters": {"image-require-digest": 1}},
    ],
)
def test_settings_of_another_shape_are_refused(given):
    assert refused(given).startswith("here: ")


def test_a_level_of_a_stack_decides_what_a_finding_leads_to():
    broken = dataclasses.replace(
        SERVICE,
        inputs={
            "metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}},
            "spec": {"type": "NodePort"},
        },
    )
    for level, refuses in ((Level.MANDATORY, True), (Level.ADVISORY, False)):
        settings = parse_settings(
            {"levels": {"network-disallow-node-port": level.value}}, all_rules(), DAY, where="x"
        )
        report = make_report(
            "s", evaluate_resource(broken, settings, [Level.MANDATORY, Level.ADVISORY]), settings
        )
        assert report.blocked is refuses
        assert bool(report.advice) is not refuses
    off = parse_settings(
        {"levels": {"network-disallow-node-port": "disabled"}}, all_rules(), DAY, where="x"
    )
    assert evaluate_resource(broken, off, [Level.MANDATORY, Level.ADVISORY]) == []


def test_what_is_unknown_of_one_container_hides_nothing_of_another():
    containers = [
        {"name": "a", "securityContext": {"privileged": UNKNOWN}},
        {"name": "b", "securityContext": {"privileged": True}},
    ]
    pod = dataclasses.replace(
        SERVICE,
        type="kubernetes:core/v1:Pod",
        urn="urn:pulumi:t::p::kubernetes:core/v1:Pod::s",
        inputs={"spec": {"containers": containers}},
    )
    rule = "pod-disallow-privileged"
    fields = [f"spec.containers[{place}].securityContext.privileged" for place in (0, 1)]
    settings = parse_settings(
        {"exemptions": [exemption(rule=rule, resource="Pod/s", path=fields[0])]},
        all_rules(),
        DAY,
        where="x",
    )
    outcomes = [
        each for each in evaluate_resource(pod, settings, [Level.MANDATORY]) if each.rule.id == rule
    ]
    assert [(each.state, each.path) for each in outcomes] == [
        (State.NOT_EVALUATED, fields[0]),
        (State.VIOLATION, fields[1]),
    ]
    report = make_report("s", outcomes, settings)
    assert [each.path for each in report.violations] == [fields[1]]


@pytest.mark.parametrize(
    ("type_", "name", "shown"),
    [
        ("kubernetes:batch/v1:Job", "chat-preheat-07a0cf3540", "Job/chat-preheat"),
        ("kubernetes:core/v1:ConfigMap", "chat-engines-07a0cf3540-r2", "ConfigMap/chat-engines"),
        ("kubernetes:apps/v1:Deployment", "chat-0123456789", "Deployment/chat-0123456789"),
    ],
)
def test_an_object_that_is_named_by_its_content_is_called_the_same_after_a_change(
    type_, name, shown
):
    assert label(f"urn:pulumi:s::inferplan::{type_}::{name}") == shown


def test_a_container_read_by_many_rules_keeps_what_it_has_before_an_unknown_argument():
    """A fact is derived once, and each rule still sees the parts before the unknown one."""
    spec = {"containers": [{"name": "c", "args": ["curl x | sh", UNKNOWN]}]}
    pod = Resource(
        type="kubernetes:core/v1:Pod",
        urn="urn:pulumi:test::p::kubernetes:core/v1:Pod::c",
        name="c",
        inputs={"spec": spec},
    )
    (container,) = pod.parts(CONTAINERS)
    assert container.commands is container.commands
    for _ in range(2):
        commands = iter(container.commands)
        assert next(commands)[1] == "curl x | sh"
        with pytest.raises(UnknownFieldError):
            next(commands)


def test_no_rule_walks_a_resource_that_has_none_of_its_keys(monkeypatch):
    """Rules that look at any depth ask the outline of keys first."""
    data = {"spec": {"a": [{"b": {"c": str(index)}} for index in range(100)]}}
    service = dataclasses.replace(SERVICE, inputs=data)
    walks = []
    below = Field.entries_below
    monkeypatch.setattr(Field, "entries_below", lambda each: walks.append(each) or below(each))
    evaluate_resource(service, Settings(today=DAY), [Level.MANDATORY, Level.ADVISORY])
    assert not walks
    tls = dataclasses.replace(SERVICE, inputs={"spec": {"a": {"insecureSkipVerify": True}}})
    assert evaluate_resource(tls, Settings(today=DAY), [Level.MANDATORY])
    assert walks
