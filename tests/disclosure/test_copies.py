"""Copies that are made once and shared show what a copy of their own would show."""

from copy import deepcopy

import pytest

from inferplan.kube.disclosure.disclosure import disclosed, hidden_values
from inferplan.kube.disclosure.sharing import shared_with
from inferplan.kube.paths import MISSING

_KEYS = [{"name": name, "value": "Xk39fjQzP0aa81"} for name in ("a", "b")]
_OLD = {"spec": {"on": True, "keys": _KEYS}}


@pytest.mark.parametrize("value", [1, 1.0])
def test_an_equal_value_of_another_kind_is_shown(value):
    disclosed(_OLD)
    new = deepcopy(_OLD)
    new["spec"]["on"] = value
    assert type(disclosed(new, before=_OLD)["spec"]["on"]) is type(value)


def test_a_part_that_was_copied_before_is_marked_where_it_changed():
    shown = disclosed(_OLD)
    new = deepcopy(_OLD)
    new["spec"]["keys"][1]["value"] = "Xk39fjQzP0aa82"
    first, second = disclosed(new, before=_OLD)["spec"]["keys"]
    assert first == shown["spec"]["keys"][0]
    assert "changed" in second["value"]
    assert "changed" not in str(disclosed(deepcopy(_OLD), before=_OLD))


def test_texts_below_a_part_that_is_hidden_as_a_whole_are_hidden():
    assert hidden_values({"a": [{"b": "Xk39fjQzP0aa81"}]}, {"a": "(hidden)"}) == {"Xk39fjQzP0aa81"}


def test_equal_parts_become_one_object_and_numbers_keep_their_type():
    old = {"spec": {"replicas": 1, "env": [{"name": "a", "value": "b"}]}, "status": {"ready": True}}
    new = {"spec": {"replicas": 2, "env": [{"name": "a", "value": "b"}]}, "status": {"ready": 1}}
    shared = shared_with(new, old)
    assert shared == new
    assert shared["spec"]["env"] is old["spec"]["env"]
    assert shared["status"]["ready"] is not True


def test_a_part_that_the_sides_of_a_step_share_is_disclosed_once():
    old = {"spec": {"password": "hunter2hunter2", "image": "a:1"}, "data": {"token": "q8Zr1Lx0Pw"}}
    new = shared_with({**old, "spec": {**old["spec"], "image": "a:2"}}, old)
    copies = {}
    first, second = (
        disclosed(value, before=before, copies=copies)
        for value, before in ((old, MISSING), (new, old))
    )
    assert first["data"] is second["data"]
    assert second == disclosed(new, before=old)
    assert "hunter2" not in str(second)
