"""Machines answer metadata requests only with a token, and only one hop away."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(machine: Resource, given: Parameters) -> Findings:
    options = machine.at("metadataOptions")
    if options.at("httpEndpoint").text() == "disabled":
        return
    if options.at("httpTokens").text() != "required":
        yield found(options.at("httpTokens"), "is not required")
    if (options.at("httpPutResponseHopLimit").number() or 1) > given["hops"]:
        yield found(options.at("httpPutResponseHopLimit"), f"is more than {given['hops']:g}")


RULE = Rule(
    id="ec2-require-imdsv2",
    title="Machines answer metadata requests only with a token, and only one hop away",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EC2.8",
        "CIS AWS 5.6",
        "CKV_AWS_79",
        "CKV_AWS_341",
    ),
    why="With two hops, or version 1, a pod takes the node's role by one request",
    remedy="set metadataOptions: httpTokens required, httpPutResponseHopLimit 1",
    subject=objects("aws:ec2:LaunchTemplate", "aws:ec2:Instance"),
    check=_check,
    parameters={
        "hops": Parameter(default=1, description="How many network hops an answer may travel", schema={"type": "number", "minimum": 1})
    },
)
