from __future__ import annotations

import json

from inferplan.planning.plan import over_budget
from inferplan.pulumi_engine.plan.states import ResourceState, States

GROUP = "aws:eks/nodeGroup:NodeGroup"
INPUTS = {"instanceTypes": ["g6e.4xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 6}}


def states(budget):
    pool = ResourceState(
        urn=f"urn:pulumi:dev::inferplan::{GROUP}::l40s", type=GROUP, custom=True, inputs=INPUTS
    )
    config = {} if budget is None else {"inferplan:budget": json.dumps({"monthlyUsd": budget})}
    return States(project="inferplan", stack="dev", resources=(pool,), config=config)


def test_a_plan_over_budget_names_the_most_expensive_resource_and_the_remedy():
    said = over_budget(states(5000))
    assert said.startswith("up to $13,159 a month, $8,159 more than the budget of $5,000")
    assert "NodeGroup l40s" in said


def test_a_plan_within_its_budget_or_without_one_passes():
    assert over_budget(states(13159)) == ""
    assert over_budget(states(None)) == ""
