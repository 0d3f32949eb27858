"""The engine's rules of identity on a real control plane: by URN, create before delete, never over
another resource's object.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap

from inferplan.rehearsal.apply.run import applied, apply, down
from inferplan.rehearsal.wait.object_events import ApplyFailed
from tests.rehearsal.engine_programs import PROJECT, names

pytestmark = pytest.mark.cluster
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def up(cluster, request):
    """Applies programs as one stack of this test, and takes them down afterwards."""
    stack = request.node.name.replace("_", "-")[:60]
    yield lambda program: apply(program, cluster, project=PROJECT, stack=stack)
    down(cluster)


@pytest.fixture
def maps(cluster):
    """The live ConfigMaps of the default namespace, content by name."""
    api = cluster.api()
    yield lambda: {
        each["metadata"]["name"]: each.get("data")
        for each in api.request("GET", MAPS)["items"]
        if each["metadata"]["name"] != "kube-root-ca.crt"
    }
    api.close()


def configured(resource: str, text: str, name: str | None = None, *, breaks: bool = False) -> None:
    """A ConfigMap `resource` with `text`, and what comes after it: a Job that the API server
    rejects where it `breaks`.
    """
    metadata: Any = None if name is None else {"name": name}
    first = ConfigMap(resource, metadata=metadata, data={"text": text}, immutable=True)
    if breaks:
        Job(
            "bad",
            metadata={"name": "bad"},
            spec={"template": {}},
            opts=pulumi.ResourceOptions(depends_on=[first]),
        )


def test_object_of_another_resource_is_not_adopted_or_changed(up, maps):
    up(lambda: configured("old", "one", "taken"))
    with pytest.raises(ApplyFailed) as failed:
        up(lambda: configured("new", "two", "taken"))
    assert (
        "ConfigMap default/taken already exists: it belongs to the resource"
        " kubernetes:core/v1:ConfigMap 'old'" in str(failed.value)
    )
    assert maps() == {"taken": {"text": "one"}}


def test_manually_created_object_is_not_adopted(cluster, up, maps):
    api = cluster.api()
    api.request(
        "POST",
        MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "theirs"},
            "data": {"text": "theirs"},
        },
    )
    with pytest.raises(
        ApplyFailed, match="already exists in the cluster, and this stack did not create it"
    ):
        up(lambda: configured("mine", "mine", "theirs"))
    assert maps() == {"theirs": {"text": "theirs"}}
    api.request("DELETE", f"{MAPS}/theirs")
    api.close()
    up(lambda: configured("mine", "mine", "theirs"))
    assert maps() == {"theirs": {"text": "mine"}}


def test_unfinished_update_under_one_urn_cannot_be_reverted_and_changes_no_live_object(up, maps):
    """What Pulumi does with objects that are named by content under one URN: the old one still
    waits for its deletion.
    """
    up(lambda: configured("settings", "one", "settings-one"))
    with pytest.raises(ApplyFailed):
        up(lambda: configured("settings", "two", "settings-two", breaks=True))
    with pytest.raises(
        ApplyFailed,
        match=(
            "settings-one already exists: the object of an earlier update is deleted when an update"
            " succeeds"
        ),
    ):
        up(lambda: configured("settings", "one", "settings-one"))
    assert set(maps()) == {"settings-one", "settings-two"}
    up(lambda: configured("settings", "two", "settings-two"))
    assert set(maps()) == {"settings-two"}


def test_unfinished_update_with_content_in_its_urn_is_reverted(cluster, up, maps):
    up(lambda: configured("settings-one", "one", "settings-one"))
    with pytest.raises(ApplyFailed):
        up(lambda: configured("settings-two", "two", "settings-two", breaks=True))
    assert set(maps()) == {"settings-one", "settings-two"}
    outcome = up(lambda: configured("settings-one", "one", "settings-one"))
    assert names(outcome.deleted) == ["ConfigMap settings-two"]
    assert set(maps()) == {"settings-one"} == {each.name for each in applied(cluster)}


def test_automatic_name_stays_until_replacement_and_unfinished_replacement_is_reverted(up, maps):
    up(lambda: configured("settings", "one"))
    [first] = maps()
    assert first.startswith("settings-")
    assert up(lambda: configured("settings", "one")).total_changes == 0
    with pytest.raises(ApplyFailed):
        up(lambda: configured("settings", "two", breaks=True))
    assert len(maps()) == 2
    outcome = up(lambda: configured("settings", "one"))
    [third] = maps()
    assert third != first
    assert names(outcome.replaced) == [f"ConfigMap {third}"]


def test_resource_keeps_its_object_when_a_new_one_is_rejected(up, maps):
    up(lambda: configured("settings", "one", "one"))
    with pytest.raises(ApplyFailed):
        up(lambda: configured("settings", "two", "No Name"))
    assert up(lambda: configured("settings", "one", "one")).total_changes == 0
    assert set(maps()) == {"one"}
