"""`status` reports changes by other programs, and the next `up` reverts them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rehearsal.cluster.api import Api
from tests.lanes import in_full
from tests.rehearsal.commands import changed_objects, inferplan, up

pytestmark = pytest.mark.cluster

DEPLOYMENT = "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b"
SERVICE = "/api/v1/namespaces/inference/services/llama-3-8b"
MERGE = "application/merge-patch+json"
BY_KUBECTL = {"fieldManager": "kubectl"}


def scale(api: Api) -> None:
    """As `kubectl scale --replicas=3`."""
    api.request("PATCH", f"{DEPLOYMENT}/scale", body={"spec": {"replicas": 3}}, media=MERGE, query=BY_KUBECTL)


def set_image(api: Api) -> None:
    """As `kubectl set image`."""
    body = {"spec": {"template": {"spec": {"containers": [{"name": "server", "image": "docker.io/vllm/vllm-openai:v0.1.0"}]}}}}
    api.request("PATCH", DEPLOYMENT, body=body, media="application/strategic-merge-patch+json", query=BY_KUBECTL)


def delete_service(api: Api) -> None:
    api.request("DELETE", SERVICE)


def delete_configuration(api: Api) -> None:
    gateway = api.request("GET", "/apis/apps/v1/namespaces/inference/deployments/gateway")
    (name,) = (each["configMap"]["name"] for each in gateway["spec"]["template"]["spec"]["volumes"] if "configMap" in each)
    api.request("DELETE", f"/api/v1/namespaces/inference/configmaps/{name}")


def point_elsewhere(api: Api) -> None:
    """As `kubectl edit service` with a selector that matches no pod."""
    body = {"spec": {"selector": {"app.kubernetes.io/instance": "nothing"}}}
    api.request("PATCH", SERVICE, body=body, media=MERGE, query=BY_KUBECTL)


def undone(state: Path, words: Sequence[str], changes: int) -> None:
    """`status` says each of `words`, one `up` undoes the changes, and the next one changes nothing."""
    told = inferplan(state, "status", "local")
    assert told.returncode == 3
    for each in words:
        assert each in told.stdout, told.stdout
    assert changed_objects(up(state)) == changes
    after = inferplan(state, "status", "local")
    assert after.returncode == 0, after.stdout + after.stderr
    assert changed_objects(up(state)) == 0


def test_several_changes_behind_our_back_are_told_together_and_undone_by_one_update(local_state, api):
    for change in (scale, delete_configuration):
        change(api)
    undone(
        local_state,
        [
            "Deployment inference/llama-3-8b",
            "spec.replicas is 3, the file says 2",
            "Deployment inference/gateway",
            "mounts ConfigMap",
            "its next pod cannot start",
        ],
        2,
    )


def test_drift_names_the_field_its_author_and_the_command(local_state, api):
    quiet = inferplan(local_state, "drift", "local")
    assert quiet.returncode == 0, quiet.stdout
    set_image(api)
    told = inferplan(local_state, "drift", "local")
    assert told.returncode == 3, told.stderr
    assert "image is docker.io/vllm/vllm-openai:v0.1.0, the stack declares docker.io/vllm/vllm-openai:v0.33" in told.stdout
    assert "by: kubectl at " in told.stdout
    assert "inferplan up local sets it back; to keep it, set models.llama-3-8b.image in stacks/Pulumi.local.yaml" in told.stdout
    up(local_state)
    assert inferplan(local_state, "drift", "local").returncode == 0


@pytest.mark.parametrize(
    ("change", "words"),
    in_full(
        (set_image, ["Deployment inference/llama-3-8b", ".image is docker.io/vllm/vllm-openai:v0.1.0, the file says"]),
        (delete_service, ["Service inference/llama-3-8b", "is declared and does not exist"]),
        (point_elsewhere, ["Service inference/llama-3-8b", "spec.selector.app.kubernetes.io/instance is nothing"]),
    ),
)
def test_a_change_behind_our_back_is_told_and_undone(local_state, api, change, words):
    change(api)
    undone(local_state, words, 1)


@pytest.mark.full
def test_recover_says_what_is_gone_and_brings_it_back(local_state, api):
    delete_service(api)
    done = inferplan(local_state, "recover", "local", "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr
    assert "Service inference/llama-3-8b: was applied and is gone" in done.stderr
    assert inferplan(local_state, "status", "local").returncode == 0


@pytest.mark.full
def test_a_dry_run_of_recover_changes_nothing(local_state, api):
    delete_service(api)
    explained = inferplan(local_state, "recover", "local", "--engine", "rehearsal", "--dry-run")
    assert "Service inference/llama-3-8b: was applied and is gone" in explained.stderr
    assert inferplan(local_state, "status", "local").returncode == 3
    up(local_state)
