from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from inferplan.components.pools import NodePoolSpec
from inferplan.hardware.accelerators import Taint
from inferplan.hardware.machines import allocatable, machine

POOL: TypeAdapter[Any] = TypeAdapter(NodePoolSpec)


def existing(**fields):
    return POOL.validate_python({"provider": "existing", "nodes": 2, **fields})


def simulated(**fields):
    return POOL.validate_python({"provider": "simulated", "nodes": 2, **fields})


def fault(make, **fields) -> str:
    with pytest.raises(ValidationError) as refused:
        make(**fields)
    faults = refused.value.errors()
    assert len(faults) == 1, faults
    return faults[0]["msg"]


def test_an_existing_gaudi_pool_of_two_lines_gets_selector_taint_runtime_class_and_size_from_the_table():
    target = existing(accelerator="gaudi-2").target("gaudi2")
    assert target.node_selector == {"inferplan.dev/pool": "gaudi2"}
    assert target.taints == (Taint(key="habana.ai/gaudi", value="present", effect="NoSchedule"),)
    assert target.runtime_class == "habana"
    assert target.capacity == allocatable(machine("hls-gaudi2"))
    assert target.capacity.accelerators == 8
    assert target.nodes == 2


def test_a_pool_without_an_accelerator_is_one_of_untainted_cpu_nodes():
    target = simulated().target("system")
    assert target.accelerator is None
    assert target.taints == ()
    assert target.runtime_class is None
    assert target.capacity.accelerators == 0
    assert target.capacity.cpu_millicores == 7910


def test_pods_on_nvidia_nodes_take_the_nodes_own_runtime_unless_the_pool_names_one():
    assert existing(accelerator="nvidia-h100").target("p").runtime_class is None
    assert (
        existing(accelerator="nvidia-h100", runtimeClass="nvidia").target("p").runtime_class
        == "nvidia"
    )


def test_a_runtime_class_of_null_turns_the_vendors_off():
    assert existing(accelerator="gaudi-3", runtimeClass=None).target("p").runtime_class is None


def test_an_empty_list_of_taints_says_that_the_nodes_carry_none():
    assert existing(accelerator="nvidia-h100", taints=[]).target("p").taints == ()


def test_taints_that_the_user_writes_replace_the_vendors():
    pool = existing(
        accelerator="nvidia-h100",
        taints=[{"key": "dedicated", "value": "llm", "effect": "NoExecute"}],
    )
    assert pool.target("p").taints == (Taint(key="dedicated", value="llm", effect="NoExecute"),)


def test_a_selector_that_the_user_writes_replaces_the_pool_label():
    assert existing(nodeSelector={"rack": "a1"}).target("p").node_selector == {"rack": "a1"}


def test_a_machine_that_the_user_describes_is_taken_as_it_stands():
    shape = {
        "cpu": "30",
        "memory": "200Gi",
        "accelerators": 4,
        "hugepages2Mi": "64Gi",
        "ephemeralStorage": "1Ti",
    }
    capacity = existing(accelerator="gaudi-2", machine=shape).capacity
    assert (capacity.cpu_millicores, capacity.memory_bytes, capacity.accelerators) == (
        30_000,
        200 * 2**30,
        4,
    )
    assert (capacity.hugepages_2mi_bytes, capacity.ephemeral_storage_bytes) == (64 * 2**30, 2**40)


def test_a_machine_of_the_table_is_taken_by_name():
    assert simulated(accelerator="nvidia-l40s", machine="g6e.48xlarge").capacity.accelerators == 8
    assert simulated(nodes=7).max_nodes == 7
    assert simulated().hardware is None


def test_the_intent_shows_what_the_user_wrote_and_nothing_else():
    assert existing(accelerator="gaudi-2", runtimeClass=None).intent() == {
        "provider": "existing",
        "nodes": 2,
        "accelerator": "gaudi-2",
        "runtimeClass": None,
    }


@pytest.mark.parametrize(
    ("make", "fields", "said"),
    [
        (existing, {"accelerator": "gaudi2"}, "Did you mean 'gaudi-2'"),
        (
            simulated,
            {"accelerator": "nvidia-l40s", "instanceType": "g6e.4xlrge"},
            "Did you mean 'g6e.4xlarge'",
        ),
        (
            simulated,
            {"accelerator": "nvidia-l4", "instanceType": "g6e.4xlarge"},
            "has nvidia-l40s, and the pool has nvidia-l4. Use one of: g6.xlarge",
        ),
        (
            simulated,
            {"instanceType": "g6e.4xlarge"},
            "has nvidia-l40s, and the pool has none. Use one of: m7i.xlarge",
        ),
        (
            existing,
            {"accelerator": "nvidia-t4", "instanceType": "m7i.xlarge"},
            "has no accelerator, and the pool has nvidia-t4",
        ),
        (
            existing,
            {"accelerator": "nvidia-t4", "instanceType": {"cpu": "4", "memory": "8Gi"}},
            "Write how many accelerators a node has",
        ),
        (
            existing,
            {"instanceType": {"cpu": "4", "memory": "8Gi", "accelerators": 1}},
            "Write accelerator too",
        ),
        (
            existing,
            {"instanceType": {"cpu": "4", "memory": "8Gi", "hugepages2Mi": "3Mi"}},
            "not a multiple of 2Mi",
        ),
        (existing, {"instanceType": {"cpu": "4", "memory": "8GB"}}, "should match pattern"),
        (existing, {"nodeSelector": {}}, "at least 1"),
        (
            existing,
            {"nodeSelector": {"kubernetes.io/hostname": "a"}},
            "selects one node, but nodes is 2",
        ),
        (existing, {"nodes": 0}, "greater than or equal to 1"),
        (existing, {"zones": ["a"]}, "Extra inputs are not permitted"),
        (simulated, {"nodeSelector": {"a": "b"}}, "Extra inputs are not permitted"),
        (simulated, {"zones": ["a", "b", "a"]}, "zones names a more than once"),
        (simulated, {"zones": []}, "at least 1"),
        (
            simulated,
            {"taints": [{"key": "a", "effect": "NO_SCHEDULE"}]},
            "'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
        ),
        (
            simulated,
            {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2},
            "a:NoSchedule more than once",
        ),
    ],
)
def test_a_fault_is_told_once_with_what_is_allowed(make, fields, said):
    assert said in fault(make, **fields)


def test_an_unknown_provider_is_answered_with_the_known_ones():
    with pytest.raises(ValidationError, match="'existing', 'eks', 'simulated'"):
        POOL.validate_python({"provider": "azure", "nodes": 1})


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    ["accelerator", "nodes", "instanceType", "taints", "runtimeClass", "nodeSelector", "zones", "x"]
)


@given(
    st.sampled_from(["existing", "simulated"]),
    st.dictionaries(_KEYS, _ANYTHING | st.sampled_from(["gaudi-2", "hls-gaudi2", 3]), max_size=5),
)
def test_no_input_makes_anything_but_a_list_of_faults_or_a_usable_pool(provider, fields):
    with contextlib.suppress(ValidationError):
        assert POOL.validate_python({"provider": provider, **fields}).target("p").nodes >= 1
