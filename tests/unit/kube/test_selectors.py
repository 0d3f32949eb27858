"""Label selectors, by the rules of the API server."""

import pytest

from inferplan.kube.selectors import selects


def _expression(operator, *values, key="tier"):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchLabels": {"app": "a", "tier": "web"}}, False),
        (_expression("In", "a", "b", key="app"), True),
        (_expression("In", "web"), False),
        (_expression("NotIn", "a", key="app"), False),
        (_expression("NotIn", "web"), True),
        (_expression("Exists", key="app"), True),
        (_expression("Exists"), False),
        (_expression("DoesNotExist"), True),
        (_expression("DoesNotExist", key="app"), False),
        ({"matchLabels": {"app": "a"}, **_expression("Exists")}, False),
        ({"matchExpressions": ["text", {"key": "app", "operator": "Unknown"}]}, True),
        ({"matchExpressions": 1, "matchLabels": None}, True),
    ],
)
def test_a_selector_selects_by_labels_and_expressions(selector, expected):
    assert selects(selector, {"app": "a"}) is expected
