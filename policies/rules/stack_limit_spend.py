"""The stack stays within its budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from policies.engine.fields import MalformedFieldError
from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.quantities import quantity

if TYPE_CHECKING:
    from review.declared import Declared

ANNOTATION = "inferplan.dev/monthly-budget-usd"
_NODE_GROUP = "aws:eks:NodeGroup"


def _check(stack: Stack, _: Parameters) -> Findings:
    from decimal import Decimal

    named = [each.at("metadata", "annotations", ANNOTATION) for each in stack.of("kubernetes:core:Namespace")]
    budgets = []
    for each in named:
        with stack.doubts:
            budgets += [] if each.absent else [each]
    if not budgets:
        return
    # The price list is read only by stacks that have a budget: the pack's start would pay for it otherwise.
    from review.cost import monthly_cost, over_budget, usd

    cost = monthly_cost(_declared(stack))
    for budget in budgets:
        with stack.doubts:
            limit = quantity(budget)
            if limit is None or limit < 0:
                raise MalformedFieldError(budget, "a number of US dollars")
            allowed = Decimal(budget.text())
            if over_budget(cost, allowed):
                # In words of its own: those of the report name machines, which are values of a resource.
                broken = f"is exceeded: the stack can cost up to {usd(cost.most)} a month at list prices"
                yield found(budget, broken if cost.most > allowed else "cannot be checked: a node group has no list price")


def _declared(stack: Stack) -> Iterator[Declared]:
    """The resources with a price that can be read. An unknown size is recorded as a doubt and counts as zero."""
    from review.declared import Declared

    for each in stack:
        with stack.doubts:
            if each.kind == _NODE_GROUP:
                for key in ("minSize", "desiredSize", "maxSize"):
                    each.at("scalingConfig", key).number()
                each.at("instanceTypes").texts()
            yield Declared(type=each.type, urn=each.urn, name=each.name, inputs=dict(each.inputs))


RULE = StackRule(
    id="stack-limit-spend",
    title="The stack stays within its budget",
    severity=Severity.HIGH,
    refs=("inference",),
    why="The maximum size of a pool can cost a lot per hour, and the plan is the cheapest place to notice",
    remedy=(
        "lower size.max of a pool, or raise budget.monthlyUsd of the stack (the annotation inferplan.dev/monthly-budget-usd of "
        "its namespace)"
    ),
    check=_check,
)
