"""Notes on nodes and load balancers that a stack does not create by itself."""

from __future__ import annotations

import pytest

from operations.notes import capacity_notes
from operations.plan import notes_before
from operations.workspace import open_workspace


def notes(stack, **changes):
    settings = open_workspace(stack).settings
    return list(capacity_notes(settings.model_copy(update=changes)))


def test_a_pool_that_starts_too_small_for_its_models_is_named_with_both_numbers_and_the_remedy():
    empty, small = [each for each in notes("prod") if each.startswith("nodePools.")]
    assert "nodePools.h100 starts with 0 nodes, and its models need 1." in empty
    assert "A rehearsal starts 1 node." in empty
    assert "nodePools.l40s starts with 2 nodes, and its models need 5." in small
    assert "no autoscaler" in small
    assert "docs/aws.md" in small


def test_a_load_balancer_that_nothing_creates_is_named():
    [gateway] = [each for each in notes("prod") if each.startswith("gateway")]
    assert "no AWS Load Balancer Controller" in gateway
    assert "no address" in gateway


def test_a_pool_without_models_and_a_stack_without_a_gateway_have_no_notes():
    assert notes("prod", gateway=None, models={}) == []


@pytest.mark.parametrize("stack", ["local", "onprem"])
def test_existing_and_fake_nodes_have_no_notes(stack):
    assert notes(stack) == []


def test_a_load_balancer_of_an_existing_cluster_has_no_note():
    assert not [each for each in notes("dev") if each.startswith("gateway")]


def test_they_are_among_the_notes_of_a_plan():
    assert any("nodePools.h100 starts with 0 nodes" in each for each in notes_before(open_workspace("prod")))
