"""Replacements by the AWS provider in a plan: the loss of a bucket is not an update."""

from __future__ import annotations

import re
from pathlib import Path

import pulumi
import pytest

from inferplan.pulumi_engine.plan.states import load, save, states_of
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.providers.aws import TYPES, replacing_patterns
from tests.recorder import declare

OUTLINES = sorted((Path(__file__).resolve().parents[3] / "stacks" / "outlines").glob("*.txt"))
BUCKET = "aws:s3/bucket:Bucket"
POLICY = "aws:s3/bucketPolicy:BucketPolicy"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
SYSTEM = "aws:efs/fileSystem:FileSystem"
TARGET = "aws:efs/mountTarget:MountTarget"


def ops(before, after):
    steps = make_plan(declare(after), load(save(states_of(declare(before))))).steps
    return {
        step.urn.rpartition("::")[2]: (
            step.op,
            [each.text for each in (step.change.differences if step.change else ())],
        )
        for step in steps
    }


def test_every_type_of_the_committed_stacks_is_known():
    types = {
        found
        for path in OUTLINES
        for found in re.findall(r"\baws:[a-z0-9]+/\w+:\w+", path.read_text())
    }
    assert len(types) > 25
    assert sorted(types - TYPES.keys()) == []


@pytest.mark.parametrize(
    ("type_", "before", "after", "op"),
    [
        (BUCKET, {"bucket": "a"}, {"bucket": "b"}, "replace"),
        (BUCKET, {"bucket": "a"}, {"bucket": "a", "tags": {"x": "y"}}, "update"),
        (SYSTEM, {"encrypted": False}, {"encrypted": True}, "replace"),
        (SYSTEM, {"throughputMode": "bursting"}, {"throughputMode": "elastic"}, "update"),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {"instanceTypes": ["a"]},
            {"instanceTypes": ["b"]},
            "replace",
        ),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {"scalingConfig": {"maxSize": 1}},
            {"scalingConfig": {"maxSize": 2}},
            "update",
        ),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {"launchTemplate": {"version": "1"}},
            {"launchTemplate": {"version": "2"}},
            "update",
        ),
        ("aws:eks/cluster:Cluster", {"version": "1.33"}, {"version": "1.34"}, "update"),
        ("aws:eks/cluster:Cluster", {"name": "a"}, {"name": "b"}, "replace"),
        (LUSTRE, {"storageCapacity": 4800}, {"storageCapacity": 2400}, "replace"),
        (LUSTRE, {"storageCapacity": 2400}, {"storageCapacity": 4800}, "update"),
        ("aws:new/thing:Thing", {"name": "a"}, {"name": "b"}, "update"),
    ],
)
def test_a_resource_is_replaced_where_the_provider_cannot_change_it(type_, before, after, op):
    def program(inputs):
        pulumi.CustomResource(type_, "x", inputs)

    assert ops(lambda: program(before), lambda: program(after))["x"][0] == op


def test_dependents_of_a_replaced_resource_change():
    def program(encrypted):
        system = pulumi.CustomResource(SYSTEM, "shared", {"encrypted": encrypted})
        pulumi.CustomResource(TARGET, "a", {"fileSystemId": system.id, "subnetId": "s"})
        pulumi.CustomResource(POLICY, "p", {"bucket": "b", "policy": system.id})
        pulumi.CustomResource(POLICY, "aside", {"bucket": "b", "policy": "c"})

    assert ops(lambda: program(encrypted=False), lambda: program(encrypted=True)) == {
        "shared": ("replace", ["encrypted"]),
        "a": ("replace", ["fileSystemId"]),
        "p": ("update", ["policy"]),
        "aside": ("same", []),
    }


def test_dependents_of_an_updated_resource_stay():
    def program(tag):
        system = pulumi.CustomResource(SYSTEM, "shared", {"tags": {"t": tag}})
        pulumi.CustomResource(TARGET, "a", {"fileSystemId": system.id})

    assert ops(lambda: program("1"), lambda: program("2"))["a"] == ("same", [])


def test_a_pattern_is_a_path():
    assert ("launchTemplate", "id") in replacing_patterns("aws:eks/nodeGroup:NodeGroup")
    assert replacing_patterns("kubernetes:core/v1:Secret") == ()
