"""The SDK's classes are the oracle: components write the fields of its typed dictionaries, which no
class translates at run time.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from inferplan.components.fields import _MAPS, api_name, manifest

GROUPS = ("admissionregistration.v1", "apps.v1", "autoscaling.v2", "batch.v1", "core.v1", "meta.v1", "networking.v1", "node.v1", "policy.v1", "rbac.v1")  # fmt: skip
# Fields of Fibre Channel volumes and of a status, which no component declares.
FOREIGN = {"target_wwns", "resource_id"}


def input_classes(group: str) -> list[tuple[type, Any]]:
    """Each input class of the group with its typed dictionary."""
    module = import_module(f"pulumi_kubernetes.{group}._inputs")
    names = [name for name in module.__all__ if not name.endswith("Dict") and "Patch" not in name]
    return [(getattr(module, name), getattr(module, f"{name}Dict")) for name in names]


@pytest.mark.parametrize("group", GROUPS)
def test_each_field_gets_the_name_that_the_sdk_gives_it(group):
    names = {
        name: value
        for each, _ in input_classes(group)
        for name, value in vars(each).items()
        if isinstance(value, property)
    }
    expected = {
        name: getattr(value.fget, "_pulumi_name", name)
        for name, value in names.items()
        if name not in FOREIGN
    }
    assert len(expected) > 1
    assert {name: api_name(name) for name in expected} == expected


def test_keys_that_users_choose_are_never_translated():
    hints = [
        hint
        for group in GROUPS
        for _, fields in input_classes(group)
        for hint in fields.__annotations__.items()
    ]
    maps = {name for name, hint in hints if "Mapping[" in str(hint)}
    assert maps - _MAPS == {
        "selector",
        "overhead",
    }, "selectors are told apart; overhead has fields in a RuntimeClass"
    assert manifest({"selector": {"my_label": "x"}}) == {"selector": {"my_label": "x"}}
    assert manifest({"pod_selector": {"match_labels": {"a_b": "c"}}}) == {
        "podSelector": {"matchLabels": {"a_b": "c"}}
    }
