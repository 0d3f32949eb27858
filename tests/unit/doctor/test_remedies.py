"""Every remedy that the code can print is tried in some world: the list of them comes from the code."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from inferplan.commands.doctor import findings
from inferplan.components.platforms.aws.prerequisites.table import rows
from tests.unit.doctor.test_worlds import PEOPLE, WORLDS
from tests.unit.doctor.worlds import Shared

ROOT = Path(__file__).resolve().parents[3]
DOCTOR = ROOT / "inferplan" / "commands" / "doctor" / "aws"
# Remedies of rows that no world prints, each with the reason.
UNTRIED = {
    ("subnet-exists", "otherwise"): "for a full VPC: a person chooses networks",
    ("subnet-zone", "otherwise"): "for a full VPC: a person chooses networks",
    ("subnet-vpc", "otherwise"): "for a full VPC: a person chooses networks",
    ("subnet-private", "otherwise"): "for a full VPC: a person chooses networks",
    ("subnet-size", "otherwise"): "for a full VPC: a person chooses networks",
    ("subnet-way-out", "otherwise"): "for a VPC without public subnets",
    ("network-acl", "otherwise"): "for an ACL without a free number before the rule that denies",
    ("balancer-subnets", "otherwise"): "for a VPC without two subnets",
    ("zone-available", "otherwise"): "for a region whose other zones are all in the file",
    ("file-system", "otherwise"): "for a VPC without a usable subnet",
    ("file-system-vpc", "otherwise"): "for a VPC without a usable subnet",
    ("mount-target", "otherwise"): "for pools with a reservation in another zone",
    ("key-policy", "otherwise"): "for a key whose policy denies",
    ("volume-key", "otherwise"): "for a default key that was deleted",
    ("offerings", "otherwise"): "for accelerators that no zone offers",
    ("vcpu-quotas", "otherwise"): "tests/unit/doctor/test_aws_checks.py",
    ("other-quotas", "otherwise"): "for a quota that AWS renamed",
}
# Findings in Python that other tests make, by file and function.
ELSEWHERE = {
    ("resources.py", "check_certificate"): "tests/unit/doctor/test_aws_checks.py",
    ("resources.py", "_judge_end"): "tests/unit/doctor/test_aws_checks.py",
    ("resources.py", "check_keys"): "tests/unit/doctor/test_aws_checks.py",
    ("capacity.py", "_judge_reservation"): "tests/unit/doctor/test_aws_checks.py",
    ("principals.py", "_judge_boundary"): "tests/unit/doctor/test_aws_checks.py",
    ("principals.py", "check_account"): "tests/unit/doctor/test_aws_checks.py",
    ("resources.py", "check_cluster"): "tests/unit/doctor/test_aws_checks.py",
    ("capacity.py", "check_reservations"): "tests/unit/doctor/test_aws_checks.py",
    ("principals.py", "check_region"): "tests/unit/doctor/test_aws_checks.py",
    ("simulation.py", "check_permissions"): "tests/unit/doctor/test_aws_checks.py",
}


def sites() -> Iterator[tuple[str, str, int, int]]:
    """The file, the function and the lines of each call that makes an error or a warning."""
    for path in sorted(DOCTOR.glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for each in ast.walk(function):
                    if (
                        isinstance(each, ast.Call)
                        and isinstance(each.func, ast.Name)
                        and each.func.id in ("error", "warning", "report")
                    ):
                        yield path.name, function.name, each.lineno, each.end_lineno or each.lineno


@pytest.mark.full
def test_every_remedy_that_the_code_can_print_is_tried(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    made: set[tuple[str, int]] = set()

    make = findings.Finding.__init__

    def record(finding: findings.Finding, *values: Any, **fields: Any) -> None:
        frame = sys._getframe(1)
        made.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        make(finding, *values, **fields)

    monkeypatch.setattr(findings.Finding, "__init__", record)
    remedies: dict[str, set[str]] = {}
    for _, change, *_ in [*WORLDS.values(), *PEOPLE.values()]:
        with mock_aws():
            world = Shared()
            change(world)
            for each in world.findings():
                remedies.setdefault(each.check.removeprefix("AWS "), set()).add(each.remedy)
    untried = {
        (name, key)
        for name, row in rows().items()
        for key in ("remedy", "otherwise")
        if isinstance(row, dict)
        and key in row
        and not any(matches(row[key], each) for each in remedies.get(name, ()))
    }
    assert untried == set(UNTRIED)
    silent = {
        (file, function)
        for file, function, first, last in sites()
        if not any(name == file and first <= line <= last for name, line in made)
    }
    assert silent <= set(ELSEWHERE), silent - set(ELSEWHERE)


def matches(template: str, remedy: str) -> bool:
    parts = re.split(r"\{\w+\}", template.replace("{{", "\0").replace("}}", "\1"))
    pattern = ".+".join(map(re.escape, parts)).replace("\0", r"\{").replace("\1", r"\}")
    return re.fullmatch(pattern, remedy, re.DOTALL) is not None


def test_every_check_of_the_code_has_its_findings_in_a_table():
    assert len(list(sites())) >= 30
    assert {file for file, *_ in sites()} >= {file for file, _ in ELSEWHERE}
