"""What `inferplan recover` makes of a state: it never deletes an object, and the next update finds
everything that exists.
"""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.workspace.deployment import Declared, key_of, repair
from inferplan.workspace.live import ObjectKey

# A state that the CLI wrote: `pulumi stack export` of the local stack (Pulumi 3.260, 2026-11-22).
EXPORT = Path(__file__).resolve().parents[2] / "fixtures" / "live-stack" / "local.state.json.gz"
OURS = {"app.kubernetes.io/managed-by": "inferplan"}


@pytest.fixture
def state() -> dict[str, Any]:
    return json.loads(gzip.decompress(EXPORT.read_bytes()))["deployment"]


def live_objects(
    state: dict[str, Any], *, labels: dict[str, str] | None = None
) -> dict[ObjectKey, dict[str, Any]]:
    """Every object of `state` as a cluster would show it."""
    found = {}
    for each in state["resources"]:
        if (key := key_of(each)) is not None:
            found[key] = {
                "metadata": {
                    "name": key.name,
                    "namespace": key.namespace,
                    "labels": OURS if labels is None else labels,
                }
            }
    return found


def declared_of(state: dict[str, Any]) -> list[Declared]:
    return [
        Declared(
            urn=each["urn"],
            type=each["type"],
            key=key,
            parents=(each["parent"],),
            inputs={"apiVersion": key.api_version},
        )
        for each in state["resources"]
        if (key := key_of(each)) is not None
    ]


def take(state: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """Removes the resource `kind name` from `state` and returns it."""
    for each in state["resources"]:
        key = key_of(each)
        if key is not None and (key.kind, key.name) == (kind, name):
            state["resources"].remove(each)
            return each
    raise AssertionError((kind, name))


def urns(deployment: dict[str, Any]) -> list[str]:
    return sorted(each["urn"] for each in deployment["resources"])


def test_a_sound_state_stays_as_it_is(state):
    before = copy.deepcopy(state)
    mended = repair(state, declared_of(state), live_objects(state).get)
    assert not mended.changed
    assert mended.deployment == state == before


def test_a_create_that_reached_the_cluster_becomes_a_resource(state):
    live, declared, whole = live_objects(state), declared_of(state), urns(state)
    lost = take(state, "Service", "llama-3-8b")
    operation = {
        "resource": {key: value for key, value in lost.items() if key not in ("id", "outputs")},
        "type": "creating",
    }
    state["pending_operations"] = [operation]
    mended = repair(state, declared, live.get)
    assert urns(mended.deployment) == whole
    assert "pending_operations" not in mended.deployment
    again = next(each for each in mended.deployment["resources"] if each["urn"] == lost["urn"])
    assert (again["id"], again["parent"], again["provider"], again["inputs"]) == (
        "inference/llama-3-8b",
        lost["parent"],
        lost["provider"],
        lost["inputs"],
    )
    assert mended.pending == (
        "Service inference/llama-3-8b: created, but not recorded; it is added to the state",
    )


def test_a_create_that_never_reached_the_cluster_is_forgotten(state):
    live, declared = live_objects(state), declared_of(state)
    lost = take(state, "Service", "llama-3-8b")
    del live[ObjectKey("v1", "Service", "inference", "llama-3-8b")]
    state["pending_operations"] = [{"resource": lost, "type": "creating"}]
    mended = repair(state, declared, live.get)
    assert lost["urn"] not in urns(mended.deployment)
    assert "before it was created" in mended.pending[0]


def test_a_create_of_what_the_file_no_longer_declares_is_kept_so_that_the_update_deletes_it(state):
    live, declared = live_objects(state), declared_of(state)
    lost = take(state, "Service", "llama-3-8b")
    state["pending_operations"] = [{"resource": lost, "type": "creating"}]
    mended = repair(state, [each for each in declared if each.urn != lost["urn"]], live.get)
    assert lost["urn"] in urns(mended.deployment)


@pytest.mark.parametrize("verb", ["updating", "deleting", "reading"])
def test_other_interrupted_operations_are_left_to_the_refresh(state, verb):
    operation = {
        "resource": next(each for each in state["resources"] if key_of(each)),
        "type": verb,
    }
    whole = urns(state)
    state["pending_operations"] = [operation]
    mended = repair(state, declared_of(state), live_objects(state).get)
    assert urns(mended.deployment) == whole
    assert f"interrupted while {verb}" in mended.pending[0]


def test_a_pending_deletion_of_what_is_declared_again_is_cancelled(state):
    """Otherwise the next update creates the ConfigMap and then deletes it under the gateway that
    mounts it.
    """
    live, declared = live_objects(state), declared_of(state)
    config = take(state, "ConfigMap", "gateway-config-15fb2ec60e")
    state["resources"].append({**config, "delete": True})
    mended = repair(state, declared, live.get)
    assert not [each for each in mended.deployment["resources"] if each.get("delete")]
    assert config["urn"] in urns(mended.deployment)
    assert "waits to be deleted, but is still declared; the deletion is cancelled" in " ".join(
        mended.pending
    )


def test_a_pending_deletion_of_what_nothing_declares_stays(state):
    declared = declared_of(state)
    config = take(state, "ConfigMap", "gateway-config-15fb2ec60e")
    state["resources"].append({**config, "delete": True})
    mended = repair(
        state, [each for each in declared if each.urn != config["urn"]], live_objects(state).get
    )
    assert [each["urn"] for each in mended.deployment["resources"] if each.get("delete")] == [
        config["urn"]
    ]
    assert not mended.changed


def test_an_object_that_exists_outside_the_state_is_adopted_with_its_missing_parent(state):
    live, declared = live_objects(state), declared_of(state)
    lost = take(state, "ConfigMap", "gateway-config-15fb2ec60e")
    children = [each for each in state["resources"] if each.get("parent") == lost["parent"]]
    for each in [
        *children,
        *(each for each in state["resources"] if each["urn"] == lost["parent"]),
    ]:
        state["resources"].remove(each)
    mended = repair(state, declared, live.get)
    order = [each["urn"] for each in mended.deployment["resources"]]
    assert order.count(lost["parent"]) == 1
    assert order.index(lost["parent"]) < order.index(lost["urn"])
    assert len(mended.adopted) == len(children) + 1


def test_an_object_of_somebody_else_is_named_and_not_adopted(state):
    live, declared = (
        live_objects(state, labels={"app.kubernetes.io/managed-by": "Helm"}),
        declared_of(state),
    )
    lost = take(state, "Service", "llama-3-8b")
    mended = repair(state, declared, live.get)
    assert mended.foreign == ("Service inference/llama-3-8b",)
    assert lost["urn"] not in urns(mended.deployment)


def test_what_the_provider_applied_keeps_its_field_manager(state):
    live, declared = live_objects(state), declared_of(state)
    lost = take(state, "Service", "llama-3-8b")
    key = ObjectKey("v1", "Service", "inference", "llama-3-8b")
    live[key]["metadata"]["managedFields"] = [
        {"manager": "kube-controller-manager"},
        {"manager": "pulumi-kubernetes-c39f"},
    ]
    mended = repair(state, declared, live.get)
    again = next(each for each in mended.deployment["resources"] if each["urn"] == lost["urn"])
    assert again["outputs"]["__fieldManager"] == "pulumi-kubernetes-c39f"


def test_a_first_update_that_was_cut_off_before_its_provider_adopts_nothing():
    declared = Declared(
        urn="urn:pulumi:x::inferplan::kubernetes:core/v1:Service::a",
        type="kubernetes:core/v1:Service",
        key=ObjectKey("v1", "Service", "n", "a"),
    )
    mended = repair({"resources": []}, [declared], lambda _key: {"metadata": {"labels": OURS}})
    assert (mended.adopted, mended.deployment["resources"]) == ((), [])


def test_a_reverted_replacement_is_turned_around(state):
    """B replaced the gateway's ConfigMap and was cut off; the file is A's again: A's ConfigMap
    stays, and B's is what has to go.
    """
    live, declared = live_objects(state), declared_of(state)
    config = take(state, "ConfigMap", "gateway-config-15fb2ec60e")
    other = {**config, "id": "inference/gateway-config-b"}
    state["resources"] += [other, {**config, "delete": True}]
    mended = repair(state, declared, live.get)
    assert {
        each["id"]: each.get("delete", False)
        for each in mended.deployment["resources"]
        if each["urn"] == config["urn"]
    } == {
        "inference/gateway-config-b": True,
        "inference/gateway-config-15fb2ec60e": False,
    }


@pytest.mark.parametrize("reverted", [False, True])
def test_a_replacement_that_was_made_and_not_written_down_is_kept_or_deleted_as_the_file_says(
    state, reverted
):
    live, declared = live_objects(state), declared_of(state)
    config = next(
        each
        for each in state["resources"]
        if each.get("id") == "inference/gateway-config-15fb2ec60e"
    )
    fresh = copy.deepcopy(
        {key: value for key, value in config.items() if key not in ("id", "outputs")}
    )
    fresh["inputs"]["metadata"]["name"] = "gateway-config-b"
    key = ObjectKey("v1", "ConfigMap", "inference", "gateway-config-b")
    live[key] = {"metadata": {"name": "gateway-config-b", "namespace": "inference", "labels": OURS}}
    state["pending_operations"] = [{"resource": fresh, "type": "creating"}]
    if not reverted:
        declared = [
            *(each for each in declared if each.urn != config["urn"]),
            Declared(urn=config["urn"], type=config["type"], key=key),
        ]
    mended = repair(state, declared, live.get)
    assert {
        each["id"]: each.get("delete", False)
        for each in mended.deployment["resources"]
        if each["urn"] == config["urn"]
    } == {
        "inference/gateway-config-b": reverted,
        "inference/gateway-config-15fb2ec60e": not reverted,
    }


def test_what_is_added_tells_the_provider_where_it_is(state):
    """Without namespace and kind the provider looks in the wrong place, finds nothing, and takes
    that for deleted.
    """
    live, declared = live_objects(state), declared_of(state)
    lost = take(state, "Service", "llama-3-8b")
    state["pending_operations"] = [
        {
            "resource": {key: value for key, value in lost.items() if key not in ("id", "outputs")},
            "type": "creating",
        }
    ]
    again = next(
        each
        for each in repair(state, declared, live.get).deployment["resources"]
        if each["urn"] == lost["urn"]
    )
    assert (again["outputs"]["kind"], again["outputs"]["metadata"]) == (
        "Service",
        {"name": "llama-3-8b", "namespace": "inference"},
    )
    assert again["outputs"]["__inputs"] == lost["inputs"]


def test_a_resource_that_the_program_calls_otherwise_now_is_renamed_with_everything_that_depends_on_it(
    state,
):
    live, declared = live_objects(state), declared_of(state)
    space = next(each for each in declared if each.key.kind == "Namespace")
    other = "urn:pulumi:local::inferplan::inferplan:home:Home$kubernetes:core/v1:Namespace::home"
    home = "urn:pulumi:local::inferplan::inferplan:home:Home::home"
    declared = [
        *(each for each in declared if each is not space),
        Declared(urn=other, type=space.type, key=space.key, parents=(home,)),
    ]
    count = len(state["resources"])
    mended = repair(state, declared, live.get)
    order = [each["urn"] for each in mended.deployment["resources"]]
    assert space.urn not in json.dumps(mended.deployment)
    assert len(order) == count + 1
    assert order.index(home) < order.index(other)
    for index, each in enumerate(mended.deployment["resources"]):
        needed = {*(each.get("dependencies") or ()), each.get("parent")} - {None, ""}
        assert needed <= set(order[:index])
    assert "is in the state under an earlier name; it is renamed there" in mended.adopted[0]


def test_a_namespace_of_another_stack_is_not_taken_over_although_it_has_the_label(state):
    """The stack file names it by mistake: the stack has nothing in it, and no operation on it is
    pending.
    """
    declared, live = declared_of(state), live_objects(state)
    theirs = ObjectKey("v1", "Namespace", "", "theirs")
    urn = next(each.urn for each in declared if each.key.kind == "Namespace").replace(
        "inference", "theirs"
    )
    declared.append(
        Declared(
            urn=urn, type="kubernetes:core/v1:Namespace", key=theirs, inputs={"apiVersion": "v1"}
        )
    )
    live[theirs] = {"metadata": {"name": "theirs", "labels": OURS}}
    mended = repair(state, declared, live.get)
    assert mended.foreign == ("Namespace theirs",)
    assert urn not in urns(mended.deployment)
