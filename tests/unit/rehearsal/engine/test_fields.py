"""Fields of an object by owner, from `metadata.managedFields`."""

from __future__ import annotations

import copy

from inferplan.rehearsal.apply.fields import without_others

LIVE = {
    "metadata": {
        "name": "n",
        "labels": {"pool": "l40s", "beta.kubernetes.io/os": "linux"},
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        "managedFields": [
            {"manager": "us", "fieldsV1": {"f:metadata": {"f:labels": {"f:pool": {}}}, "f:spec": {"f:ports": {'k:{"port":1}': {".": {}, "f:port": {}}}}}},
            {
                "manager": "controller",
                "fieldsV1": {
                    "f:metadata": {
                        "f:labels": {"f:beta.kubernetes.io/os": {}},
                        "f:annotations": {"f:node.alpha.kubernetes.io/ttl": {}},
                        "f:finalizers": {'v:"controller/protects"': {}},
                    },
                    "f:spec": {"f:ports": {'k:{"port":2}': {".": {}, "f:port": {}}, 'k:{"port":1}': {"f:nodePort": {}}}},
                },
            },
        ],
        "finalizers": ["ours", "controller/protects"],
    },
    "spec": {"ports": [{"port": 1, "nodePort": 30000}, {"port": 2}], "type": "NodePort"},
}  # fmt: skip


def test_fields_of_other_managers_are_removed_and_fields_without_owner_stay():
    before = copy.deepcopy(LIVE)
    left = without_others(LIVE, "us")
    assert left["spec"] == {"ports": [{"port": 1}], "type": "NodePort"}
    assert {name: value for name, value in left["metadata"].items() if name != "managedFields"} == {
        "name": "n",
        "labels": {"pool": "l40s"},
        "finalizers": ["ours"],
    }
    assert before == LIVE


def test_fields_from_before_the_first_apply_have_no_owner():
    account = [{"manager": "before-first-apply", "fieldsV1": {"f:data": {"f:a": {}}}}]
    live = {"metadata": {"name": "c", "managedFields": account}, "data": {"a": "1"}}
    assert without_others(live, "us") == live


def test_an_object_without_an_account_is_left_whole():
    assert without_others({"metadata": {"name": "c"}, "data": {"a": "1"}}, "us") == {
        "metadata": {"name": "c"},
        "data": {"a": "1"},
    }
