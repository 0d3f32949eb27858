"""Every member of every union times every fact: a change of the fact is a risk that names its
subject, the old and the new value.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from inferplan.components.gateway.spec import GatewaySpec
from inferplan.components.handles import SecretRef
from inferplan.components.nodes.facts import pool_facts
from inferplan.components.platforms.spec import ClusterSpec
from inferplan.components.pools import NodePoolSpec
from inferplan.components.serving.facts import model_facts
from inferplan.components.serving.scaling_spec import SIGNALS
from inferplan.components.serving.spec import ModelSpec, engine_of
from inferplan.components.stores import StoreSpec
from inferplan.kube.facts import (
    ClusterFacts,
    Facts,
    GatewayFacts,
    ModelFacts,
    PoolFacts,
    StoreFacts,
    document,
)
from inferplan.review.report import make_report
from tests.review_streams import preview, stack_step

FILE = Path(__file__).with_name("facts_matrix.toml")
MATRIX: dict[str, Any] = tomllib.loads(FILE.read_text())
UNIONS: dict[str, tuple[Any, tuple[str, ...], type[Facts]]] = {
    "model": (ModelSpec, ("engine",), ModelFacts),
    "gateway": (GatewaySpec, ("implementation", "exposure"), GatewayFacts),
    "store": (StoreSpec, ("kind",), StoreFacts),
    "pool": (NodePoolSpec, ("provider",), PoolFacts),
    "cluster": (ClusterSpec, ("provider",), ClusterFacts),
}


def members(kind: str) -> Iterator[str]:
    """The members of a union, read off the union itself: the values of the fields that tell them
    apart.
    """
    union, tags, _ = UNIONS[kind]
    for annotated in get_args(get_args(union)[0]):
        spec = get_args(annotated)[0] if get_args(annotated) else annotated
        names = [""]
        for tag in tags:
            names = [
                f"{name} {value}".strip()
                for name in names
                for value in get_args(spec.model_fields[tag].annotation)
            ]
        yield from names


def answer(kind: str, member: str, fact: str) -> dict[str, Any]:
    row = MATRIX[kind].get(member, {}).get(fact) or MATRIX[kind]["all"].get(fact)
    assert row is not None, (
        f"tests/review/{FILE.name}: [{kind}.{member}] has no answer for the fact {fact!r} (and"
        f" [{kind}.all] has none)"
    )
    return row


def base(kind: str, member: str) -> dict[str, Any]:
    entry = MATRIX["bases"][kind].get(member)
    assert entry is not None, (
        f"tests/review/{FILE.name}: [bases.{kind}] has no {member!r}, which is a member of the union"
    )
    return entry


def merged(entry: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(entry)
    for key, value in edits.items():
        if value == "~":
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


@cache
def adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(UNIONS[kind][0])


def facts_of(kind: str, entry: dict[str, Any]) -> Any:
    spec = adapter(kind).validate_python(entry)
    if kind == "model":
        names = {"weights": "s3", "share": "nfs", "other-share": "nfs"}
        stores = {
            name: adapter("store").validate_python(base("store", store))
            for name, store in names.items()
        }
        return model_facts(
            engine_of(spec).endpoint("subject", spec, SecretRef(name="k", key="k")), spec, stores
        )
    return pool_facts("subject", spec) if kind == "pool" else spec.facts


def report(before: Facts, after: Facts) -> list[str]:
    """What the report says when the facts of one subject change, in a stack with a gateway."""
    gate = facts_of("gateway", base("gateway", "nginx internal"))
    sides = [
        document([("subject", each), *([("gate", gate)] if each.kind != "gateway" else [])])
        for each in (before, after)
    ]
    risks = make_report([preview(stack_step(*({"facts": each} for each in sides)))]).stacks[0].risks
    return [f"{each.what} | {each.name} | {each.cause}" for each in risks if each.weight < 2]


CASES = [
    (kind, member, each.name)
    for kind in UNIONS
    for member in members(kind)
    for each in fields(UNIONS[kind][2])
]


@pytest.mark.parametrize(("kind", "member", "fact"), CASES, ids=["-".join(each) for each in CASES])
def test_the_report_names_a_changed_fact(kind, member, fact):
    row = answer(kind, member, fact)
    if "why" in row:
        assert len(row["why"]) > 10
        return
    entry = merged(base(kind, member), row.get("was", {}))
    before, after = (
        facts_of(kind, entry),
        facts_of(
            kind, base(kind, row["member"]) if "member" in row else merged(entry, row.get("to", {}))
        ),
    )
    assert getattr(before, fact) != getattr(after, fact), (
        f"tests/review/{FILE.name}: [{kind}.{member}] {fact} does not change the fact"
    )
    # Only this fact: another one that changes with it must not hide it.
    said = report(before, replace(before, **{fact: getattr(after, fact)}))
    words = row.get("says") or f"| {to_camel(fact)}"
    assert any(words in text and "subject" in text for text in said), said
    assert "says" in row or any("→" in text for text in said)


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_scaler_that_follows_a_signal_later_is_a_risk(signal):
    before = facts_of("model", base("model", "vllm"))
    said = report(replace(before, signals={signal: 4}), replace(before, signals={signal: 9}))
    assert said == [f"follows the load later | subject | signals.{signal}: 4 → 9"]


def test_a_member_without_an_answer_is_told_where_to_write_it():
    with pytest.raises(
        AssertionError,
        match=(
            r"tests/review/facts_matrix.toml: \[model.sparrow\] has no answer for the fact"
            r" 'settings'"
        ),
    ):
        answer("model", "sparrow", "settings")
    with pytest.raises(AssertionError, match=r"\[bases.store\] has no 'gcs'"):
        base("store", "gcs")
