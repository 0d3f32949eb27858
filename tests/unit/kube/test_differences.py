"""The difference of two trees."""

import pytest

from inferplan.kube.differences import differences, parts_by_index, parts_by_key
from inferplan.kube.paths import MISSING


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [(("a",), 1, 2)]),
        ({"a": {"b": 1}}, {"a": {}}, [(("a", "b"), 1, MISSING)]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [(("a", 1, "b"), 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [(("a",), [1], [1, 2])]),
        ({"a": {}}, {"a": []}, [(("a",), {}, [])]),
        ({}, {"a": None}, [(("a",), MISSING, None)]),
    ],
)
def test_each_differing_part_has_its_path_and_both_values(old, new, expected):
    assert list(differences(old, new, parts=parts_by_index)) == expected


def test_values_without_parts_are_compared_as_a_whole():
    old, new = {"a": [1, 2]}, {"a": [1, 3]}
    assert list(differences(old, new, parts=parts_by_key)) == [(("a",), [1, 2], [1, 3])]
    assert not [*differences(old, new, parts=parts_by_key, equal=lambda *_: True)]


def test_very_deep_trees_are_compared_as_a_whole():
    old, new = 1, 2
    for _ in range(400):
        old, new = {"a": old}, {"a": new}
    ((path, _, _),) = differences(old, new, parts=parts_by_index)
    assert set(path) == {"a"}
    assert len(path) == 100
