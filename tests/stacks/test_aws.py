"""The committed stacks on AWS as an update declares them, every value known, beside what their
preview declares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.lanes import in_full
from tests.stacks.test_committed_stacks import ROOT, STACKS, recording_of
from tests.unit.aws.rig import declared_by

# Each wildcard that AWS leaves no way around: where, in which part of a statement, what it may be,
# and why.
ACCOUNTED = (
    ("aws:iam/rolePolicy:RolePolicy", "Resource", r"arn:aws:s3:::[a-z0-9.-]+/[A-Za-z0-9/_.-]+/\*", "objects have no names before they are uploaded"),
    ("aws:s3/bucketPolicy:BucketPolicy", "Action", r"s3:\*", "a denial must name every action, or it leaves some open"),
    ("aws:s3/bucketPolicy:BucketPolicy", "Resource", r"arn:aws:s3:::[a-z0-9.-]+/\*", "a denial must name every object"),
    ("aws:s3/bucketPolicy:BucketPolicy", "Principal", r"\*", "a denial must name everybody"),
    ("aws:iam/rolePolicy:RolePolicy", "Resource", r"\*", "actions that describe groups and instance types apply to no resource"),
    ("aws:iam/rolePolicy:RolePolicy", "Resource", r"arn:aws:eks:[a-z0-9-]+:\*:nodegroup/[a-z-]+/\*/\*", "node groups have random ids"),
    ("aws:iam/rolePolicy:RolePolicy", "Resource", r"arn:aws:autoscaling:[a-z0-9-]+:\*:autoScalingGroup:\*:autoScalingGroupName/eks-\*", "EKS names the groups; a tag limits them to the cluster"),
    ("aws:efs/fileSystemPolicy:FileSystemPolicy", "Principal", r"\*", "NFS mounts carry no AWS identity; two conditions decide instead"),
)  # fmt: skip


@pytest.fixture(scope="module", params=["prod", *in_full("dev", "staging")])
def stack(request):
    return request.param


@pytest.fixture(scope="module")
def updated(stack) -> Recording:
    return declared_by(validate(read_stack(STACKS[stack])))


def statements(recording: Recording) -> Iterator[tuple[str, dict[str, object]]]:
    """Every statement of every document among the inputs, whatever the input is called, with the
    type of its resource.
    """
    for each in recording:
        for value in each.inputs.values():
            if isinstance(value, str) and '"Statement"' in value:
                yield from ((each.type, statement) for statement in json.loads(value)["Statement"])


def flat(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from flat(each)


def wildcards(recording: Recording) -> Iterator[tuple[str, str, str]]:
    for kind, statement in statements(recording):
        assert not {"NotAction", "NotResource", "NotPrincipal"} & statement.keys(), statement
        for part in ("Action", "Resource", "Principal"):
            yield from (
                (kind, part, value) for value in flat(statement.get(part, [])) if "*" in value
            )


def accounts(kind: str, part: str, value: str) -> list[tuple[str, str, str, str]]:
    return [each for each in ACCOUNTED if each[:2] == (kind, part) and re.fullmatch(each[2], value)]


def test_no_document_holds_a_wildcard_that_is_not_accounted_for(updated):
    assert len(list(statements(updated))) >= 4
    for kind, part, value in wildcards(updated):
        assert accounts(kind, part, value), (
            f"{kind} says {part} {value!r}: name it, or account for it with the reason"
        )


def test_every_wildcard_that_is_accounted_for_is_needed(stack, updated):
    needed = {entry for found in wildcards(updated) for entry in accounts(*found)}
    assert stack != "prod" or needed == set(ACCOUNTED)


def test_only_denials_and_file_systems_speak_of_everybody(updated):
    for kind, statement in statements(updated):
        if "*" in flat(statement.get("Principal", [])):
            assert statement["Effect"] == "Deny" or (
                kind.startswith("aws:efs/") and statement["Condition"]
            ), statement


def test_a_preview_declares_every_resource_that_the_update_will(stack, updated, monkeypatch):
    """A resource made of an answer of AWS, inside `apply`, would be missing: nobody could review
    it.
    """
    monkeypatch.chdir(ROOT)
    assert {(each.type, each.name) for each in recording_of(stack)} == {
        (each.type, each.name) for each in updated
    }


def test_every_resource_of_aws_hangs_below_a_component_and_takes_its_region_from_the_one_provider(
    updated,
):
    aws = [each for each in updated if each.type.startswith("aws:")]
    assert len(aws) > 5
    assert all("inferplan:" in each.parent for each in aws)
    [provider] = updated.of_type("pulumi:providers:aws")
    assert {each.provider for each in aws} == {provider.urn}
