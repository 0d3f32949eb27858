"""Instance metadata requires IMDSv2 and allows one hop."""

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
    title="Instance metadata requires IMDSv2 and allows one hop",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EC2.8",
        "CIS AWS 5.6",
        "CKV_AWS_79",
        "CKV_AWS_341",
    ),
    why="With two hops, or with IMDSv1, a pod can get the node's role with one request",
    remedy="set metadataOptions.httpTokens: required and metadataOptions.httpPutResponseHopLimit: 1",
    subject=objects("aws:ec2:LaunchTemplate", "aws:ec2:Instance"),
    check=_check,
    parameters={
        "hops": Parameter(default=1, description="Maximum number of network hops of a response", schema={"type": "number", "minimum": 1})
    },
)
