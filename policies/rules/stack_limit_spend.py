"""The nodes of the stack cost no more than agreed."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, StackRule, found


def _check(stack: Stack, given: Parameters) -> Findings:
    if not given["hourlyLimit"]:
        return
    total = 0.0
    for group in stack.of("aws:eks:NodeGroup"):
        prices = [given["hourlyPrices"].get(type_) for type_ in group.at("instanceTypes").texts()]
        if not prices or None in prices:
            yield found(group.at("instanceTypes"), "has no price in the parameter hourlyPrices", urn=group.urn)
            continue
        total += max(price for price in prices if price is not None) * (group.at("scalingConfig", "maxSize").number() or 0)
        if total > given["hourlyLimit"]:
            yield found(group.at("scalingConfig", "maxSize"), "takes the stack over its hourly limit", urn=group.urn)


RULE = StackRule(
    id="stack-limit-spend",
    title="The nodes of the stack cost no more than agreed",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="A pool's size is money by the hour, and the plan is where it is cheapest to see",
    remedy="lower scalingConfig.maxSize, or raise the parameter hourlyLimit; hourlyPrices lists what an instance type costs",
    check=_check,
    parameters={
        "hourlyLimit": Parameter(
            default=0, description="The most that all node groups may cost an hour, 0 for no limit", schema={"type": "number", "minimum": 0}
        ),
        "hourlyPrices": Parameter(
            default={},
            description="Price an hour by instance type, in the currency of the limit",
            schema={"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
        ),
    },
)
