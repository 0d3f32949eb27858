"""Disruption budgets that select the same pods."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.drains import shared_budgets
from inferplan.audit.manifest import Manifest
from inferplan.rehearsal.wait.object_events import Key

if TYPE_CHECKING:
    from inferplan.audit.session import Session


def _change(*selectors: Any) -> Change:
    bodies: list[dict[str, Any]] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a"},
            "spec": {"template": {"metadata": {"labels": {"app": "a"}}}},
        },
        *(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"budget-{index}"},
                "spec": {"selector": selector},
            }
            for index, selector in enumerate(selectors)
        ),
    ]
    manifests = {
        Key(body["kind"], "edge", body["metadata"]["name"]): Manifest(body=body, place="a.yaml:1")
        for body in bodies
    }
    new = Deployed(manifests=manifests)
    return Change(
        session=cast("Session", None), old=Deployed(manifests={}), new=new, since=0.0, first=False
    )


def _expression(operator, *values):
    return {"matchExpressions": [{"key": "app", "operator": operator, "values": [*values]}]}


@pytest.mark.parametrize(
    "selector", [{}, {"matchLabels": {"app": "a"}}, _expression("In", "a"), _expression("Exists")]
)
def test_two_budgets_of_one_pod_are_reported(selector):
    (finding,) = shared_budgets(_change({"matchLabels": {"app": "a"}}, selector))
    assert finding.object == "PodDisruptionBudget edge/budget-1"


@pytest.mark.parametrize(
    "selector", [{"matchLabels": {"app": "b"}}, _expression("NotIn", "a"), _expression("In", "b")]
)
def test_budgets_of_different_pods_are_not_reported(selector):
    assert not [*shared_budgets(_change({"matchLabels": {"app": "a"}}, selector))]
