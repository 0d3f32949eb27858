from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.kube.paths import (
    MISSING,
    covers,
    order_of,
    parse,
    text_of,
    value_at,
    values_at,
    with_values_of,
)


def spelled(key: str) -> bool:
    """Whether Pulumi's grammar has a spelling for `key`."""
    return not (key.endswith("\\") or '\\"' in key)


KEYS = st.text(min_size=0, max_size=12).filter(spelled) | st.sampled_from(
    ["", ".", "a.b/c", 'a"b.c', "[0]", "foo-bar", "]", "é", "\n", '"']
)
PATHS = st.lists(KEYS | st.integers(min_value=0, max_value=10**6), max_size=6).map(tuple)


@given(PATHS)
def test_every_path_survives_its_spelling(path):
    assert parse(text_of(path)) == path


@given(PATHS)
def test_a_spelling_survives_its_path(path):
    text = text_of(path)
    assert text_of(parse(text)) == text


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_is_refused_with_the_place(text):
    try:
        outcome: object = parse(text)
    except ValueError as refusal:
        outcome = str(refusal)
    assert isinstance(outcome, tuple) or "character" in str(outcome)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        ("spec.replicas", ("spec", "replicas")),
        ('a.b[0]["x.y"]', ("a", "b", 0, "x.y")),
        ('metadata.annotations["a/b.c"].d', ("metadata", "annotations", "a/b.c", "d")),
        ('["root.key"][1]', ("root.key", 1)),
        (r'a["he said \"no.\""]', ("a", 'he said "no."')),
        ("foo-bar.x", ("foo-bar", "x")),
    ],
)
def test_pulumi_spellings_are_read(text, path):
    assert parse(text) == path


@pytest.mark.parametrize("text", [".a", "a..b", "a[", "a[x]", 'a["b', "a[0]b", "a."])
def test_broken_spellings_are_refused(text):
    with pytest.raises(ValueError, match="not a property path"):
        parse(text)


# properties_path.go: everything but ASCII letters, digits and _ is quoted, and only quotes are
# escaped.
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("a_1", "a_1"),
        ("a-b", '["a-b"]'),
        ("é", '["é"]'),
        ('a"b', r'["a\"b"]'),
        ("a.b\\", '["a.b\\"]'),
    ],
)
def test_keys_are_quoted_as_pulumi_quotes_them(key, text):
    assert text_of((key,)) == text


def test_a_star_matches_each_item():
    pattern = parse("containers[*].image")
    assert pattern == ("containers", "*", "image")
    assert values_at({"containers": [{"image": "a"}, {}]}, pattern) == ["a", None]
    assert covers(pattern, ("containers", 3, "image", "x"))
    assert not covers(pattern, ("containers", 3))


@given(PATHS.filter(bool), st.integers())
def test_value_at_returns_the_value_that_was_put_at_the_path(path, value):
    tree = value
    for part in reversed(path):
        tree = {part: tree} if isinstance(part, str) else [None] * min(part, 50) + [tree]
    reached = value_at(
        tree, tuple(min(part, 50) if isinstance(part, int) else part for part in path)
    )
    assert reached == value
    assert value_at(tree, (*path, "beyond")) is MISSING


def test_indices_sort_as_numbers():
    paths = [("a", 10), ("a", 2), ("a", "b"), ("a",)]
    assert sorted(paths, key=order_of) == [("a",), ("a", 2), ("a", 10), ("a", "b")]


def test_values_are_copied_at_paths_and_removed_where_there_are_none():
    live = {"spec": {"replicas": 5, "list": [{"a": 1}]}}
    goal = {"spec": {"replicas": 2, "list": [{"a": 2, "b": 3}], "extra": True}}
    assert with_values_of(live, goal, ("spec.replicas", "spec.list[0].a", "spec.extra")) == {
        "spec": {"replicas": 5, "list": [{"a": 1, "b": 3}]}
    }
    assert goal["spec"]["replicas"] == 2
