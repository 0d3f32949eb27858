"""The gateway of a whole stack on a real control plane: zones, how pods get new keys, and an Envoy
Gateway.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from inferplan.components.gateway import keys
from inferplan.kube.api import Api
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, open_secrets
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.cluster import start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.stackfile.reader import read_stack
from tests.canaries import hits
from tests.patience import PATIENCE_SECONDS
from tests.printed_keys import read_key
from tests.rehearsal.commands import ROOT, STACK, inferplan, up, variant
from tests.unit.gateway.test_ways_in import WAYS
from tests.unit.gateway.whole_stack import recorded

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/inference/pods"
ENVOY = (
    "{implementation: envoyGateway, exposure: gatewayApi, host: llm.local.test, parent: {name:"
    ' public, namespace: gateways}, cors: {origins: ["https://chat.local.test"]}}'
)


@pytest.fixture(scope="module", autouse=True)
def _as_the_file_says(local_up):
    """Other modules share the stack."""
    yield
    up(local_up[0])


def _gateway_pods(api: Api) -> list[dict]:
    found = api.request(
        "GET", PODS, query={"labelSelector": "app.kubernetes.io/component=gateway"}
    )["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def _history(api: Api, path: str, since: str) -> list[tuple[str, dict]]:
    """What happened to the objects at `path` after the revision `since`, in order, up to the newest
    change of those that are there.
    """
    newest = max(
        int(each["metadata"]["resourceVersion"]) for each in api.request("GET", path)["items"]
    )
    events: list[tuple[str, dict]] = []
    with contextlib.closing(
        api.watch(path, {"resourceVersion": since, "timeoutSeconds": str(PATIENCE_SECONDS)})
    ) as watch:
        for event in watch if newest > int(since) else ():
            events.append(event)
            if int(event[1]["metadata"]["resourceVersion"]) >= newest:
                break
    return [event for event in events if event[0] != "BOOKMARK"]


def _zones(api: Api, pods: list[dict]) -> list[str]:
    nodes = api.request("GET", "/api/v1/nodes")["items"]
    zones = {
        each["metadata"]["name"]: each["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for each in nodes
    }
    return sorted(zones[each["spec"]["nodeName"]] for each in pods)


def _keys_of(pods) -> str:
    """The name of the one Secret with keys that `pods` mount."""
    [name] = {
        volume["secret"]["secretName"]
        for each in pods
        for volume in each["spec"]["volumes"]
        if volume["name"] == "keys"
    }
    return name


def _with_keys(folder: Path, *edits: tuple[str, str]) -> Path:
    path = variant(folder, *edits[0])
    for old, new in edits[1:]:
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    return path


def test_new_keys_reach_new_pods_while_two_replicas_keep_serving(local_state, api, tmp_path):
    secrets = "/api/v1/namespaces/inference/secrets"
    since = api.request("GET", PODS)["metadata"]["resourceVersion"]
    before = _gateway_pods(api)
    up(
        local_state,
        _with_keys(
            tmp_path,
            ("chat: {keys: [2, 1]}", "chat: {keys: [3, 2]}"),
            ("chat: {issued: 2}", "chat: {issued: 3, spent: 1}"),
        ),
    )
    after = _gateway_pods(api)
    assert {each["metadata"]["name"] for each in before}.isdisjoint(
        each["metadata"]["name"] for each in after
    )
    assert _zones(api, after) == ["zone-a", "zone-b"]
    marks = {each["metadata"]["annotations"]["inferplan.dev/keys"] for each in (*before, *after)}
    assert len(marks) == 2
    # Old pods may restart until the rollout ends, so their Secret is the last thing that goes.
    old, new = (_keys_of(each) for each in (before, after))
    with contextlib.closing(
        api.watch(secrets, {"resourceVersion": since, "timeoutSeconds": str(PATIENCE_SECONDS)})
    ) as watch:
        changes = {}
        for kind, each in watch:
            changes[kind, each["metadata"]["name"]] = int(each["metadata"]["resourceVersion"])
            if ("DELETED", old) in changes:
                break
    ready = max(int(each["metadata"]["resourceVersion"]) for each in after)
    assert changes["DELETED", old] > ready > changes["ADDED", new]
    born = [
        each
        for kind, each in _history(api, PODS, since)
        if kind == "ADDED"
        and each["metadata"]["name"] in {pod["metadata"]["name"] for pod in after}
    ]
    assert len(born) == 2
    assert all(int(each["metadata"]["resourceVersion"]) > changes["ADDED", new] for each in born)
    deployments = _history(api, "/apis/apps/v1/namespaces/inference/deployments", since)
    available = [
        each["status"].get("availableReplicas", 0)
        for _, each in deployments
        if each["metadata"]["name"] == "gateway"
    ]
    assert available
    assert min(available) >= 2


@pytest.mark.full
def test_only_secret_objects_contain_secrets_and_output_shows_none(local_state, api):
    file = read_stack(ROOT / "stacks" / "Pulumi.local.yaml")
    opened = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=None,
        environment={"PULUMI_CONFIG_PASSPHRASE": EXAMPLE_PASSPHRASE},
    )
    seed = opened.values["inferplan:apiKeySeed"]
    secrets = {
        "seed": seed,
        "pepper": keys.pepper(seed),
        "server key": keys.server_key(seed, "llama-3-8b"),
    }
    secrets |= {
        f"{who} {version}": read_key(keys.consumer_key(seed, who, version)).secret
        for who, version in (("chat", 2), ("chat", 1), ("batch", 1))
    }
    surfaces = {name: inferplan(local_state, name, "local") for name in ("status", "plan", "check")}
    said = {name: (done.stdout + done.stderr).encode() for name, done in surfaces.items()}
    listed = (
        "/api/v1",
        "/apis/apps/v1",
        "/apis/batch/v1",
        "/apis/networking.k8s.io/v1",
        "/apis/policy/v1",
        "/apis/events.k8s.io/v1",
    )
    for base in listed:
        for resource in api.request("GET", base)["resources"]:
            if "list" in resource["verbs"] and resource["name"] != "secrets":
                said[resource["name"]] = json.dumps(
                    api.request("GET", f"{base}/{resource['name']}")
                ).encode()
    assert b"inferplan.dev/keys" in said["pods"]
    assert len(json.loads(said["events"])["items"]) > 5
    # What the control plane itself keeps of Secrets lies in etcd's folder; its logs and our own
    # records must hold none.
    said |= {
        str(path.relative_to(local_state)): path.read_bytes()
        for path in local_state.rglob("*")
        if path.is_file() and "etcd" not in path.parts[-4:-1]
    }
    # nginx of this machine needs its own Secret in a file, where one is installed.
    for name in [each for each in said if each.endswith("serving/keys.conf")]:
        assert (local_state / name).stat().st_mode & 0o777 == 0o600
        del said[name]
    assert hits(secrets, said) == []
    held = json.dumps(api.request("GET", "/api/v1/namespaces/inference/secrets")).encode()
    assert {each.partition(" in ")[0] for each in hits(secrets, {"secrets": held})} >= {
        "server key",
        "batch 1",
    }


@pytest.mark.full
def test_changed_keys_do_not_restart_models(local_state, api, tmp_path):
    def models():
        found = api.request(
            "GET", PODS, query={"labelSelector": "app.kubernetes.io/component=model"}
        )["items"]
        return {each["metadata"]["uid"] for each in found}

    before = models()
    up(
        local_state,
        _with_keys(
            tmp_path,
            ("batch: {keys: [1]}", "batch: {keys: [2, 1]}"),
            ("batch: {issued: 1}", "batch: {issued: 2}"),
        ),
    )
    assert models() == before


@pytest.mark.full
def test_objects_of_envoy_gateway_replace_ours(local_state, api, tmp_path):
    ours = next(line for line in STACK.splitlines() if "inferplan:gateway:" in line)
    up(local_state, variant(tmp_path, ours, f"  inferplan:gateway: {ENVOY}"))
    made = {}
    for version, kind in (
        ("gateway.networking.k8s.io/v1", "HTTPRoute"),
        ("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"),
        ("gateway.envoyproxy.io/v1alpha1", "HTTPRouteFilter"),
        ("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy"),
    ):
        made[kind] = [
            each["metadata"]["name"]
            for each in api.request("GET", api.resource(version, kind).path("inference"))["items"]
        ]
    assert {tuple(names) for names in made.values()} == {
        ("gateway-llama-3-70b", "gateway-llama-3-8b")
    }
    deployments = api.request("GET", "/apis/apps/v1/namespaces/inference/deployments")["items"]
    assert "gateway" not in {each["metadata"]["name"] for each in deployments}
    clients = api.request("GET", "/api/v1/namespaces/inference/secrets/gateway-clients")
    assert sorted(clients["data"]) == ["batch_1", "chat_1", "chat_2"]
    assert json.dumps(clients["metadata"]).count("ipk_") == 0


@pytest.mark.full
def test_api_server_accepts_objects_of_each_gateway_exposure(api, monkeypatch):
    """Each is sent as a trial, beside one model that speaks gRPC; the server holds it to its schema
    and its admission, and keeps nothing.
    """
    monkeypatch.chdir(ROOT)
    install = installer(start("local"), lambda _: None)
    assert install("gateway.networking.k8s.io")
    models = json.loads(
        read_stack(ROOT / "stacks" / "Pulumi.local.yaml").config["inferplan:models"]
    )
    triton = json.loads(
        read_stack(ROOT / "docs" / "engines" / "Pulumi.triton.yaml").config["inferplan:models"]
    )
    spoken = {
        "llama-3-8b": models["llama-3-8b"],
        "vision": {**triton["writer"], "consumers": ["chat"]},
    }
    taken = set()
    for way in WAYS.values():
        scaled = {
            **way,
            "autoscaling": {"maxReplicas": 6},
            "cors": {"origins": ["https://chat.acme.example"]},
        }
        for each in recorded(gateway=scaled, models=spoken):
            if not each.type.startswith("kubernetes:") or not each.name.startswith("gateway"):
                continue
            if each.inputs["kind"] == "Secret":
                continue
            body = reveal(each.inputs)
            # The namespace of this stack has no room for a load balancer; that of a stack that asks
            # for one has.
            home = body["metadata"]["namespace"] = (
                "default" if each.name == "gateway-nlb" else "inference"
            )
            path = api.resource(body["apiVersion"], body["kind"]).path(
                home, body["metadata"]["name"]
            )
            api.apply(path, body, manager="trial", force=True, dry_run=True)
            taken.add(body["kind"])
    assert taken == {
        *(
            "ConfigMap",
            "Deployment",
            "GRPCRoute",
            "HTTPRoute",
            "HorizontalPodAutoscaler",
            "Ingress",
        ),
        *("NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"),
    }
