"""The kinds that an inference platform meets most often: the harmless form of each passes, and its
faulty forms are violations.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings
from tests.policies.cases import ABSENT, keys_of, put, recording_of

SWEEP = yaml.safe_load((Path(__file__).parent / "sweep.yaml").read_text())
FAULTS = [(type_, edit) for type_, row in SWEEP.items() for edit in row["bad"]]
# Rules that speak of an object alone, whatever it says: its labels, and settings of the account that are
# the user's.
ALWAYS = {"object-require-managed-by", "stack-require-protection", "image-restrict-registries"}


def violations(type_: str, inputs: dict[str, Any]) -> set[tuple[str, str, str]]:
    metadata = {"name": "a", "namespace": "models", **inputs.pop("metadata", {})}
    inputs = {"metadata": metadata, **inputs} if type_.startswith("kubernetes:") else inputs
    provider = f"urn:pulumi:s::p::pulumi:providers:{type_.partition(':')[0]}::a"
    resource = {"type": type_, "name": "a", "inputs": inputs, "provider": provider}
    report = check_stack(stack_of(recording_of([resource])), Settings(today="2026-11-29"))
    return {
        (each.rule.id, each.path, each.problem)
        for each in report.violations
        if each.rule.id not in ALWAYS
    }


@pytest.mark.parametrize("type_", SWEEP)
def test_the_harmless_form_of_a_kind_passes(type_):
    assert violations(type_, copy.deepcopy(SWEEP[type_]["good"])) == set()


@pytest.mark.parametrize(("type_", "edit"), FAULTS, ids=str)
def test_a_faulty_form_of_a_kind_is_a_violation(type_, edit):
    inputs = copy.deepcopy(SWEEP[type_]["good"])
    for path, value in edit.items():
        put(inputs, keys_of(path), ABSENT if value is None else value)
    assert violations(type_, inputs)


FILE_SYSTEM = {"encrypted": True, "kmsKeyId": "arn:aws:kms:eu-central-1:210987654321:key/a"}


@pytest.mark.parametrize(
    ("protect", "status", "wrong"),
    [(True, "DISABLED", True), (True, "ENABLED", False), (False, "DISABLED", False)],
)
def test_a_file_system_that_is_kept_has_a_backup(protect, status, wrong):
    backup = {"fileSystemId": "fs-1", "backupPolicy": {"status": status}}
    listed = [
        {"type": f"aws:efs/{kind}", "name": "a", "inputs": inputs, "protect": protect}
        for kind, inputs in (
            ("fileSystem:FileSystem", FILE_SYSTEM),
            ("backupPolicy:BackupPolicy", backup),
        )
    ]
    report = check_stack(stack_of(recording_of(listed)), Settings(today="2026-11-29"))
    problems = {each.problem for each in report.violations}
    assert ("leaves the files without a backup" in problems) is wrong
