"""The committed stacks, from YAML to ready pods and back, by CLI commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inferplan.kube.api import Api, ApiError
from inferplan.rehearsal.cluster import start, status
from inferplan.rehearsal.cluster.processes import running
from inferplan.rehearsal.cluster.record import cluster_directory
from tests.rehearsal.commands import STACK, changed_objects, inferplan, up, variant

pytestmark = pytest.mark.cluster

NAMESPACED = (
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
)


def names(api: Api) -> set[tuple[str, str]]:
    found = set()
    for version, kind in NAMESPACED:
        items = api.request("GET", api.resource(version, kind).path("inference"))["items"]
        found |= {(kind, item["metadata"]["name"]) for item in items}
    return found


def runs(pid: int) -> bool:
    """Whether the process still runs: one that ended stays listed until its parent has asked for
    its exit code.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_two_models_reach_ready_pods(local_up):
    _, output = local_up
    assert re.search(r"llama-3-8b +vllm +\w+ +l40s +2/2", output)
    assert re.search(r"llama-3-70b +vllm +\w+ +gaudi2 +1/1", output)
    assert re.search(r"gaudi2 +gaudi-2 +1/1 +4/8 +4", output)


def test_a_second_up_changes_nothing(local_state):
    assert changed_objects(up(local_state, "local")) == 0


def test_changed_replica_count_changes_one_object(local_state, tmp_path):
    assert changed_objects(up(local_state, variant(tmp_path, "replicas: 2", "replicas: 3"))) == 1
    assert changed_objects(up(local_state, "local")) == 1


def test_a_plan_is_compared_with_what_is_up(local_state, tmp_path):
    up(local_state, "local")
    same = inferplan(local_state, "plan", "local")
    assert re.search(r"(\d+) resources: \1 unchanged\n", same.stdout)
    assert "compared with what the last up left on the simulated cluster local" in same.stderr
    changed = inferplan(local_state, "plan", str(variant(tmp_path, "replicas: 2", "replicas: 3")))
    assert "~ Deployment llama-3-8b  spec.replicas\n" in changed.stdout
    assert ", 2 to change\n" in changed.stdout  # the component and its Deployment
    # A file for a report has all resources on any machine.
    events = tmp_path / "events.ndjson"
    alone = inferplan(local_state, "plan", "local", "--events", str(events))
    assert re.search(r"(\d+) resources: \1 to create\n", alone.stdout)


def test_only_gaudi_pods_run_on_gaudi_nodes(api):
    for pod in api.request("GET", "/api/v1/namespaces/inference/pods")["items"]:
        on_gaudi = pod["spec"]["nodeName"].startswith("gaudi2-")
        asks = "habana.ai/gaudi" in pod["spec"]["containers"][0]["resources"].get("requests", {})
        assert on_gaudi == asks, pod["metadata"]["name"]


def test_quota_rejects_accelerator_without_a_pool(api):
    container = {
        "name": "greedy",
        "image": "registry.example/greedy:1",
        "resources": {"requests": {"nvidia.com/gpu": "7"}, "limits": {"nvidia.com/gpu": "7"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pod = {
        "metadata": {"name": "greedy"},
        "spec": {"containers": [container], "securityContext": security},
    }
    with pytest.raises(ApiError, match=r"exceeded quota.*requests.nvidia.com/gpu=7"):
        api.request(
            "POST", "/api/v1/namespaces/inference/pods", {"apiVersion": "v1", "kind": "Pod", **pod}
        )


def test_pod_outside_the_restricted_profile_is_rejected(api):
    pod = {
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "root", "image": "registry.example/root:1"}]},
    }
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.request(
            "POST", "/api/v1/namespaces/inference/pods", {"apiVersion": "v1", "kind": "Pod", **pod}
        )


def test_exit_code_of_status_reports_readiness(local_state):
    assert inferplan(local_state, "status", "local").returncode == 0
    # A cluster that cannot be read says nothing about differences.
    assert inferplan(local_state, "status", "onprem").returncode == 1


def test_removing_a_model_prunes_its_objects_and_no_others(local_state, api, tmp_path):
    before = names(api)
    start_of = STACK.index("    llama-3-70b:")
    end_of = STACK.index("  inferplan:gateway")
    up(local_state, variant(tmp_path, STACK[start_of:end_of], ""))
    gone = before - names(api)
    assert {(kind, name) for kind, name in before if "llama-3-70b" in name} <= gone
    # The gateway's configuration and its keys are named by their content, so those without the
    # model take the place of those with it.
    others = sorted(name for _, name in gone if "llama-3-70b" not in name)
    assert [name.rpartition("-")[0] for name in others] == ["gateway-config", "gateway-keys"]
    missing = inferplan(local_state, "status", "local")
    assert missing.returncode == 3
    assert re.search(r"llama-3-70b .* 0/1 .*\n +not applied yet", missing.stdout)
    assert (
        "local is not as stacks/Pulumi.local.yaml says. Run inferplan up local: it applies what is"
        " missing" in missing.stderr
    )


@pytest.mark.full
def test_stack_with_external_nodes_is_rehearsed_on_fake_nodes(local_state):
    output = up(local_state, "onprem")
    assert "its nodes are fake" in output
    assert re.search(r"gaudi2 +gaudi-2 +2/2 +12/16 +4", output)
    assert re.search(r"qwen-3-8b +vllm +\w+ +gaudi2 +4/4", output)
    shown = inferplan(local_state, "status", "onprem")
    assert shown.returncode == 0
    assert (
        "this is the rehearsal of onprem on this machine; read the real one with --context NAME"
        in shown.stderr
    )


def test_down_leaves_nothing(local_state, monkeypatch):
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(local_state))
    pids = [pid for each in running(cluster_directory("local")).values() for pid in each]
    done = inferplan(local_state, "down", "local", "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr
    cluster = start("local")
    client = cluster.api()
    assert [
        item["metadata"]["name"] for item in client.request("GET", "/api/v1/nodes")["items"]
    ] == []
    assert "inference" not in {
        item["metadata"]["name"] for item in client.request("GET", "/api/v1/namespaces")["items"]
    }
    client.close()
    assert "to create" in inferplan(local_state, "plan", "local").stdout
    assert (
        inferplan(local_state, "down", "local", "--engine", "rehearsal", "--cluster").returncode
        == 0
    )
    assert status("local") == "absent"
    assert pids
    assert not any(runs(pid) for pid in pids)
