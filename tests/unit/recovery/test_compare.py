"""Two states of an object are compared by the items of their lists, whatever the server or a person
added next to an item.
"""

from __future__ import annotations

from inferplan.kube.paths import MISSING, text_of
from inferplan.updating.drift.compare import declared_differences

VARIABLE = {"name": "KEY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
LIVE = {
    "name": "KEY",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}},
}
ADDED = {"name": "BAZ", "value": "1"}


def differences(live, declared):
    return [
        (text_of(path), found, wanted)
        for path, found, wanted in declared_differences(
            "Deployment", {"env": live}, {"env": declared}
        )
    ]


def test_a_default_of_the_server_is_no_difference_next_to_an_added_item():
    assert differences([ADDED, LIVE], [VARIABLE]) == [("env[0]", ADDED, MISSING)]


def test_the_order_of_items_does_not_count():
    assert differences([ADDED, LIVE], [VARIABLE, ADDED]) == []
