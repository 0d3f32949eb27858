from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.paths import MISSING, order_of, parse, text_of, value_at


def spelled(key: str) -> bool:
    """Whether Pulumi's grammar has a spelling for `key`."""
    return not ((key.endswith("\\") or '\\"' in key) and any(mark in key for mark in ".["))


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


def test_a_key_without_spelling_is_refused():
    with pytest.raises(ValueError, match="no spelling"):
        text_of(("a.b\\",))


@given(PATHS.filter(bool), st.integers())
def test_a_path_leads_to_what_was_put_there(path, value):
    tree = value
    for part in reversed(path):
        tree = {part: tree} if isinstance(part, str) else [None] * min(part, 50) + [tree]
    reached = value_at(tree, tuple(min(part, 50) if isinstance(part, int) else part for part in path))
    assert reached == value
    assert value_at(tree, (*path, "beyond")) is MISSING


def test_indices_sort_as_numbers():
    paths = [("a", 10), ("a", 2), ("a", "b"), ("a",)]
    assert sorted(paths, key=order_of) == [("a",), ("a", 2), ("a", 10), ("a", "b")]
