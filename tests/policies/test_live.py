"""The pack on a stack that is up: the engine then sends outputs, with the server's defaults and
what controllers wrote since.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from inferplan.planning.policy_check import settings_file, stack_of
from inferplan.policies.engine.registry import all_rules, stack_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import today
from inferplan.policies.engine.settings_reader import read_settings
from inferplan.pulumi_engine.recording import Recording, Registration
from tests.policies import rows_stack
from tests.policies.analyzer import MANDATORY, analyze, analyze_stack, configure, pack
from tests.policies.cases import REFUSED, changed
from tests.policies.live import live
from tests.policies.mutants import mutants_of, without
from tests.policies.recorded import ROOT
from tests.policies.test_rules import CASES


def some(rules: Iterable[str]) -> list[Any]:
    """The rules, of which `make test` takes every fifth."""
    return [
        rule if index % 5 == 0 else pytest.param(rule, marks=pytest.mark.full)
        for index, rule in enumerate(sorted(rules))
    ]


NOT_READY = {"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}
STACK_RULES = {rule.id for rule in stack_rules()}


@pytest.fixture(scope="module")
def stub():
    with pack() as running:
        configure(running, {})
        yield running


def messages(diagnostics) -> set[str]:
    return {
        each.message.partition("\n")[2]
        for each in diagnostics
        if each.enforcementLevel == MANDATORY
    }


def checked(recording: Recording) -> set[str]:
    """The refusals of `check` for what the stack declares, with its own settings."""
    report = check_stack(
        stack_of(recording),
        read_settings(settings_file(ROOT, recording.stack), all_rules(), today()),
    )
    return {
        f"{'not evaluated: ' if each.state == 'not evaluated' else ''}{each.message}"
        for each in report.violations
    }


def rules_in(diagnostics) -> set[str]:
    return {each.message.partition("[")[2].partition("]")[0] for each in diagnostics}


def test_the_recorded_outputs_hold_what_no_program_declares():
    recording, outputs = live("local")
    nodes = [each.urn for each in recording if each.type.endswith(":Node")]
    assert any(NOT_READY in outputs[urn]["spec"]["taints"] for urn in nodes)
    assert all(
        "managedFields" in each["metadata"]
        for urn, each in outputs.items()
        if "kubernetes:core" in urn
    )


def test_a_stack_that_is_up_is_judged_by_what_it_declares(stub):
    recording, outputs = live("local")
    assert messages(analyze(stub, recording, outputs=lambda each: outputs[each.urn])) == checked(
        recording
    )


def test_what_a_targeted_run_leaves_alone_is_judged_by_the_inputs_that_the_provider_kept(stub):
    recording, outputs = live("local")
    said = messages(analyze_stack(stub, recording, outputs=lambda each: outputs[each.urn]))
    assert said == {
        each
        for each in checked(recording)
        if each.partition("[")[2].partition("]")[0] in STACK_RULES
    }
    assert not any("stack-require-matching-pool" in each for each in said)


def test_an_object_that_is_being_deleted_neither_protects_nor_offends(stub):
    """The engine refreshes what it deletes, and then sends it with the stack."""
    recording, outputs = live("local")
    needed = {urn for each in recording for urn in (each.parent, *each.dependencies)}
    before = {each.urn for each in recording}
    tried, added, expected = 0, [], set()
    for mutant in without(recording):
        after = {each.urn for each in mutant.recording}
        if after < before and not (before - after) & needed:
            said = rules_in(
                analyze(
                    stub,
                    mutant.recording,
                    outputs=lambda each: outputs[each.urn],
                    refreshed=recording,
                )
            )
            assert said & set(mutant.rules), mutant.name
            tried += 1
        elif before < after:
            extra = [each for each in mutant.recording if each.urn not in before]
            added += [dataclasses.replace(each, urn=f"{each.urn}-{len(added)}") for each in extra]
            expected |= set(mutant.rules)
    assert tried >= 3
    assert len(added) >= 20
    refreshed = dataclasses.replace(recording, registrations=(*recording.registrations, *added))
    assert not rules_in(analyze(stub, recording, outputs=as_live, refreshed=refreshed)) & expected


def test_passing_taints_of_a_node_keep_no_model_away_even_without_kept_inputs(stub):
    recording, outputs = live("local")
    bare = {
        urn: {key: value for key, value in each.items() if key != "__inputs"}
        for urn, each in outputs.items()
    }
    assert "stack-require-matching-pool" not in rules_in(
        analyze_stack(stub, recording, outputs=lambda each: bare[each.urn])
    )


LIVE_MUTANTS = {
    rule: mutant
    for mutant in (*mutants_of(live("local")[0]), *without(live("local")[0]))
    for rule in mutant.rules
    # The saved state is older than the facts of a stack, which state the size of a model.
    if rule in STACK_RULES
    and mutant.rules == (rule,)
    and rule != "stack-require-startup-budget-for-model"
}


def test_most_stack_rules_have_a_mutant_of_the_live_stack():
    """The others are about kinds that this stack does not have; the rows below try them."""
    assert len(LIVE_MUTANTS) >= 14


@pytest.mark.parametrize("ask", [pytest.param(analyze, marks=pytest.mark.full), analyze_stack])
@pytest.mark.parametrize("rule", some(LIVE_MUTANTS))
def test_a_stack_rule_catches_a_change_of_a_stack_that_is_up(stub, rule, ask):
    """The change is in the inputs alone: the live object around them is as it was."""
    _recording, outputs = live("local")
    mutant = LIVE_MUTANTS[rule]

    def after(each: Registration) -> dict[str, Any]:
        known = outputs.get(each.urn, each.inputs)
        return {**known, "__inputs": each.inputs} if each.type.startswith("kubernetes:") else known

    assert rule in rules_in(ask(stub, mutant.recording, outputs=after)), mutant.name


def as_live(each: Registration) -> dict[str, Any]:
    """Outputs as the providers write them: an object of Kubernetes with its kept inputs, a
    component with none of its inputs.
    """
    if not each.custom:
        return {}
    if not each.type.startswith("kubernetes:"):
        return {**each.inputs, "id": "x", "arn": "arn:aws:x"}
    object_ = copy.deepcopy(each.inputs)
    metadata = object_.get("metadata")
    if isinstance(metadata, dict):
        metadata |= {
            "uid": "0",
            "resourceVersion": "7",
            "managedFields": [{"manager": "pulumi-kubernetes"}],
        }
    if (
        each.type.endswith(":Node")
        and isinstance(object_.get("spec"), dict)
        and isinstance(object_["spec"].get("taints", []), list)
    ):
        object_["spec"]["taints"] = [*object_["spec"].get("taints", []), NOT_READY]
    return {
        **object_,
        "status": object_.get("status", {}),
        "__fieldManager": "pulumi-kubernetes",
        "__inputs": each.inputs,
    }


def test_the_base_stack_passes_when_it_is_up(stub):
    assert analyze(stub, changed("", {}), outputs=as_live) == []


BAD = {case.row.rule: case for case in CASES if case.name == "bad" and case.row.rule in STACK_RULES}


def test_every_stack_rule_is_tried_on_outputs():
    assert (
        set(BAD) | {rule for rule, *_rest, expected in rows_stack.OPTIONS if expected == REFUSED}
        >= STACK_RULES
    )


@pytest.mark.parametrize("rule", some(BAD))
def test_a_stack_rule_sees_a_violation_in_a_stack_that_is_up(stub, rule):
    case = BAD[rule]
    configure(stub, {"parameters": {rule: case.row.parameters}} if case.row.parameters else {})
    said = rules_in(analyze(stub, case.recording(), outputs=as_live))
    configure(stub, {})
    assert rule in said


def test_inputs_that_a_program_calls_kept_hide_nothing(stub):
    """Only a provider writes `__inputs`; a program that declares a harmless one beside the real
    field is judged by the real one.
    """
    recording = changed(
        "Deployment/chat", {"spec.replicas": 9, "spec.template.spec.hostNetwork": True}
    )
    harmless = changed("", {})
    listed = [
        dataclasses.replace(each, inputs={**each.inputs, "__inputs": other.inputs})
        if each.name == "chat"
        else each
        for each, other in zip(recording, harmless, strict=True)
    ]
    said = rules_in(analyze(stub, dataclasses.replace(recording, registrations=tuple(listed))))
    assert {"stack-require-pool-capacity", "pod-disallow-host-namespaces"} <= said
