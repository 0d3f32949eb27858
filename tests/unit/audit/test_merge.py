from __future__ import annotations

from inferplan.audit.merge import indexed, patch, unkept
from inferplan.kube.paths import MISSING

LIVE = {
    "metadata": {"labels": {"a": "1", "other": "x"}},
    "spec": {"replicas": 5, "ports": [{"port": 80, "nodePort": 30000}], "clusterIP": "10.0.0.1"},
}
OLD = {
    "metadata": {"labels": {"a": "1", "gone": "y"}},
    "spec": {"replicas": 2, "ports": [{"port": 80}]},
}


def test_what_the_declaration_no_longer_has_goes_and_what_others_added_stays():
    new = {"metadata": {"labels": {"a": "2"}}, "spec": {"ports": [{"port": 80}]}}
    live = {**LIVE, "metadata": {"labels": {**LIVE["metadata"]["labels"], "gone": "y"}}}
    assert patch(live, OLD, new) == {
        "metadata": {"labels": {"gone": None, "a": "2"}},
        "spec": {"replicas": None},
    }


def test_a_value_that_others_changed_is_set_back_and_a_list_changes_as_a_whole():
    new = {**OLD, "spec": {"replicas": 2, "ports": [{"port": 81}]}}
    assert patch(LIVE, OLD, new)["spec"] == {"replicas": 2, "ports": [{"port": 81}]}


def test_an_object_as_declared_needs_no_patch():
    new = {"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 5, "ports": [{"port": 80}]}}
    assert patch(LIVE, new, new) == {}


def test_a_key_of_server_side_apply_becomes_a_position():
    body = {"spec": {"containers": [{"name": "a"}, {"name": "b", "env": []}]}}
    assert indexed('spec.containers[name="b"].env', body) == "spec.containers[1].env"
    assert indexed('spec.containers[name="c"].env', body) == "spec.containers[0].env"


def test_a_field_that_the_api_server_leaves_out_is_named_and_an_empty_one_is_not():
    declared = {
        "spec": {
            "hostNetwork": False,
            "list": [],
            "volumes": [{"name": "a", "image": {"reference": "b"}}],
        },
        "stringData": {"a": "b"},
    }
    live = {"spec": {"volumes": [{"name": "b", "emptyDir": {}}]}}
    assert list(unkept(declared, live)) == [
        (("spec", "volumes", 0, "name"), "b"),
        (("spec", "volumes", 0, "image"), MISSING),
    ]
    assert list(unkept(declared, declared)) == []
