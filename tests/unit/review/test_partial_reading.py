"""Reading a part of a value must give what reading all of it gives: secrets stay hidden, and
differences are neither lost nor added.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inferplan.kube.marks import OUTPUT, SECRET, SIGNATURE, UNKNOWN_TEXT
from inferplan.pulumi_engine.reading.values import at, veil, veil_at
from inferplan.review.steps.leaves import differing_leaves, leaves

CANARY = "canary-1f6b0c2d9e"
_SECRET = {SIGNATURE: SECRET, "ciphertext": CANARY}
_KEYS = st.sampled_from(("name", "value", "data", "password", "apiKey", "a.b", "spec", "env"))
_TEXTS = st.sampled_from(
    (
        "",
        "a",
        "HF_TOKEN",
        "[secret]",
        UNKNOWN_TEXT,
        f"x {UNKNOWN_TEXT}",
        '{"a": [1, {"name": "n", "b": 2}]}',
        "[1",
    )
)


def _nested(inner):
    output = {SIGNATURE: st.just(OUTPUT)}
    return st.one_of(
        st.dictionaries(_KEYS, inner, max_size=3),
        st.lists(inner, max_size=3),
        st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("ab"), "value": inner}), max_size=3
        ),
        st.fixed_dictionaries({**output, "value": inner}, optional={"secret": st.booleans()}),
    )


VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(0, 2), st.none(), st.booleans(), st.just(_SECRET)),
    _nested,
    max_leaves=12,
)
INPUTS = st.dictionaries(_KEYS, VALUES, max_size=4)
PATHS = st.lists(
    st.one_of(_KEYS, st.integers(0, 2), st.just(SIGNATURE), st.just("ciphertext")), max_size=4
).map(tuple)
TYPES = st.sampled_from(("kubernetes:core/v1:Secret", "kubernetes:apps/v1:Deployment"))


@given(INPUTS, PATHS, TYPES)
def test_one_value_is_hidden_as_it_is_in_the_whole(inputs, path, type_):
    assert repr(veil_at(inputs, path, type_)) == repr(at(veil(inputs, type_), path))
    assert CANARY not in repr(veil_at(inputs, path, type_))


@given(INPUTS, INPUTS)
def test_differing_leaves_are_the_leaves_that_differ(old, new):
    missing = object()
    before, after = leaves(old), leaves(new)
    expected = {
        path for path in {*before, *after} if before.get(path, missing) != after.get(path, missing)
    }
    sides = differing_leaves(old, new), differing_leaves(new, old)
    values = [{path: leaf.value for path, leaf in side.items()} for side in sides]
    assert {
        path
        for path in {*values[0], *values[1]}
        if values[0].get(path, missing) != values[1].get(path, missing)
    } == expected
    assert all(values[0].get(path, missing) == before.get(path, missing) for path in expected)
