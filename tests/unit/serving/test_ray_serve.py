from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from inferplan.components.handles import EndpointProtocol, ServeRoute
from inferplan.components.serving.ray_serve.service import endpoint
from inferplan.components.serving.ray_serve.spec import RayServeSpec
from inferplan.components.sources import ModelMount
from inferplan.kube.quantity import bytes_of
from tests.unit.serving.models import GAUDI2, KEY, L40S, MOUNT, declared, pool

LLM = {"kind": "llm", "modelId": "llama"}
CUSTOM = {"kind": "custom", "importPath": "app:graph", "routePrefix": "/rag"}


def ray(**fields: Any) -> RayServeSpec:
    given = {
        "engine": "ray-serve",
        "weights": {"store": "w", "path": "llama"},
        "pool": "p",
        "rayVersion": "2.56.0",
        "applications": {"llm": LLM},
    }
    return RayServeSpec.model_validate(
        {**given, "image": "docker.io/rayproject/ray-llm:2.56.0-py312-cu130", **fields}
    )


def service_of(spec: RayServeSpec, **where: Any) -> dict[str, Any]:
    return declared(spec, **where).one("kubernetes:ray.io/v1:RayService").inputs["spec"]


def serve_of(spec: RayServeSpec, **where: Any) -> dict[str, Any]:
    return yaml.safe_load(service_of(spec, **where)["serveConfigV2"])


def test_a_gpu_worker_claims_its_cards_and_leaves_ray_to_count_them():
    [workers] = service_of(ray(accelerators=4, replicas=2))["rayClusterConfig"]["workerGroupSpecs"]
    [container] = workers["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert (workers["replicas"], workers["rayStartParams"]) == (2, {})


def test_a_gaudi_worker_tells_ray_its_hpus_which_kuberay_does_not_know():
    custom = {**CUSTOM, "deployments": {"chat": {"accelerators": 2}}}
    spec = ray(accelerators=2, applications={"rag": custom})
    [workers] = service_of(spec, target=GAUDI2)["rayClusterConfig"]["workerGroupSpecs"]
    assert json.loads(json.loads(workers["rayStartParams"]["resources"])) == {"HPU": 2}
    [app] = serve_of(spec, target=GAUDI2)["applications"]
    assert app["deployments"] == [{"name": "chat", "ray_actor_options": {"resources": {"HPU": 2}}}]


def test_the_head_holds_no_card_and_takes_no_replica():
    head = service_of(ray())["rayClusterConfig"]["headGroupSpec"]
    [container] = head["template"]["spec"]["containers"]
    assert set(container["resources"]["limits"]) == {"memory"}
    assert (head["rayStartParams"]["num-cpus"], head["rayStartParams"]["num-gpus"]) == ("0", "0")
    variables = {each["name"]: each.get("value") for each in container["env"]}
    # The image names every GPU of the node, and Ray offers what it sees.
    assert variables["NVIDIA_VISIBLE_DEVICES"] == variables["HABANA_VISIBLE_DEVICES"] == "void"


def pods_of(spec: RayServeSpec, **where: Any) -> dict[str, dict[str, Any]]:
    cluster = service_of(spec, **where)["rayClusterConfig"]
    return {
        "head": cluster["headGroupSpec"]["template"]["spec"],
        "worker": cluster["workerGroupSpecs"][0]["template"]["spec"],
    }


def sizes_of(pod: dict[str, Any]) -> dict[str, int]:
    return {
        each["name"]: bytes_of(each["emptyDir"]["sizeLimit"])
        for each in pod["volumes"]
        if "emptyDir" in each
    }


def test_the_object_store_is_in_memory_as_large_as_kuberay_would_make_it_and_spills_to_a_tmp_that_holds_it():
    pods = pods_of(ray(resources={"memory": "64Gi"}, head={"memory": "16Gi"}))
    for kind, memory in (("head", 16), ("worker", 64)):
        # KubeRay v1.7.0, common/pod.go, makeEmptyDirVolume: the container's memory limit.
        assert sizes_of(pods[kind])["shm"] == memory * 2**30
        # Ray 2.60 keeps 30% of the memory for objects (DEFAULT_OBJECT_STORE_MEMORY_PROPORTION).
        assert sizes_of(pods[kind])["tmp"] >= min(64 * 2**30 * 0.29, 4 * 2**30)
    assert sizes_of(pods["worker"])["tmp"] == 19 * 2**30
    assert sizes_of(pods_of(ray(sharedMemory="3Gi"))["worker"])["shm"] == 3 * 2**30


def test_a_builder_that_lands_on_the_head_finds_the_files_and_variables_that_it_finds_on_a_worker():
    weights = replace(MOUNT, marked=True)
    artifacts = {"extra": ModelMount(claim=MOUNT.claim, sub_path="extra")}
    pods = pods_of(ray(), weights=weights, artifacts=artifacts)
    mounts = {
        kind: {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
        for kind, pod in pods.items()
    }
    assert "/models/chat" in mounts["head"]
    assert mounts["head"] == mounts["worker"]
    assert [each["name"] for each in pods["head"]["initContainers"]] == [
        each["name"] for each in pods["worker"]["initContainers"]
    ]
    names = {
        kind: {each["name"] for each in pod["containers"][0]["env"]} for kind, pod in pods.items()
    }
    assert names["worker"] - names["head"] == set()


def test_the_ray_container_is_the_first_and_only_one_of_each_pod():
    cluster = service_of(ray())["rayClusterConfig"]
    pods = [cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"]]
    assert [[each["name"] for each in pod["spec"]["containers"]] for pod in pods] == [
        ["ray-head"],
        ["ray-worker"],
    ]


def test_the_head_names_the_port_that_kuberay_makes_the_serve_service_of():
    [container] = service_of(ray())["rayClusterConfig"]["headGroupSpec"]["template"]["spec"][
        "containers"
    ]
    assert {"name": "serve", "containerPort": 8000} in container["ports"]


@pytest.mark.parametrize(
    ("replicas", "nodes", "strategy"), [(4, 2, "NewCluster"), (4, 1, "None"), (5, 2, "None")]
)
def test_a_cluster_is_replaced_by_a_second_one_only_where_the_pool_has_room_for_both(
    replicas, nodes, strategy
):
    target = pool("nvidia-l40s", machine="g6e.12xlarge", nodes=nodes)
    assert service_of(ray(replicas=replicas), target=target)["upgradeStrategy"] == {
        "type": strategy
    }


@pytest.mark.parametrize(("replicas", "others", "spare"), [(5, 0, 3), (2, 5, 1)])
def test_a_new_cluster_that_would_wait_for_cards_for_ever_is_refused(replicas, others, spare):
    spec = ray(replicas=replicas, upgradeStrategy="NewCluster")
    [fault] = spec.shared_pool_errors(L40S, others)
    assert fault.path == ("upgradeStrategy",)
    assert f"has {spare} free" in fault.message
    assert list(ray(replicas=2, upgradeStrategy="NewCluster").shared_pool_errors(L40S, 4)) == []


def test_workers_that_the_pool_never_holds_are_refused():
    [fault] = ray(workerAutoscaling={"maxReplicas": 9}).errors_on(L40S)
    assert "9 workers need 9 accelerators and pool 'p' has 8" in fault.message


def test_a_head_that_finds_no_room_beside_workers_on_every_node_is_refused():
    small = pool("nvidia-l40s", machine="g6e.xlarge", nodes=2)
    found = list(ray(replicas=2).shared_pool_errors(small, 0))
    assert [each.path for each in found] == [("head", "cpu"), ("head", "memory")]
    assert "it would never start. Lower head.cpu" in found[0].message
    assert list(ray(replicas=1).shared_pool_errors(small, 0)) == []
    assert (
        list(
            ray(replicas=2, resources={"cpu": "1500m"}, head={"memory": "2Gi"}).shared_pool_errors(
                small, 0
            )
        )
        == []
    )
    assert len(list(ray(replicas=1).shared_pool_errors(small, 1))) == 2
    # The autoscaler's container stands beside the head.
    tight = {
        "replicas": 1,
        "resources": {"cpu": "1900m", "memory": "10Gi"},
        "head": {"cpu": "1900m"},
    }
    one = pool("nvidia-l40s", machine="g6e.xlarge", nodes=1)
    assert list(ray(**tight).shared_pool_errors(one, 0)) == []
    assert (
        "the head requests 2400m"
        in next(
            ray(**tight, workerAutoscaling={"maxReplicas": 1}).shared_pool_errors(one, 0)
        ).message
    )


def test_rays_own_application_asks_for_gpus_and_is_refused_on_gaudi():
    [fault] = ray().errors_on(GAUDI2)
    assert fault.path == ("applications", "llm", "kind")
    assert list(ray(applications={"rag": CUSTOM}).errors_on(GAUDI2)) == []


def test_a_worker_holds_as_many_cards_as_its_largest_replica_needs_unless_told():
    assert ray(applications={"llm": {**LLM, "tensorParallelSize": 4}}).accelerators_per_pod == 4
    assert (
        ray(
            applications={"a": {**CUSTOM, "deployments": {"d": {"accelerators": 2}}}}
        ).accelerators_per_pod
        == 2
    )
    assert (
        ray(
            applications={"a": {**CUSTOM, "deployments": {"d": {"accelerators": 0.5}}}}
        ).accelerators_per_pod
        == 1
    )


def test_stages_are_counted_and_told_to_the_engine():
    llm = {**LLM, "tensorParallelSize": 2, "pipelineParallelSize": 2}
    [app] = serve_of(ray(replicas=2, applications={"llm": llm}))["applications"]
    assert app["args"]["llm_configs"][0]["engine_kwargs"] == {
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 2,
    }
    with pytest.raises(ValidationError, match="need up to 4 accelerators and 1 workers hold 2"):
        ray(applications={"llm": llm})


@pytest.mark.parametrize(("version", "options"), [("2.51.0", None), ("2.52.0", {"mode": "token"})])
def test_control_needs_a_token_where_ray_can_ask_for_one(version, options):
    assert service_of(ray(rayVersion=version))["rayClusterConfig"].get("authOptions") == options


def test_a_checkpoint_reaches_the_builder_with_its_base_and_adapter():
    custom = {
        **CUSTOM,
        "checkpointPath": "run-7",
        "baseModel": "base",
        "adapter": "lora",
        "args": {"style": "short"},
    }
    [app] = serve_of(ray(applications={"rag": custom}))["applications"]
    assert app["args"] == {
        "style": "short", "checkpoint_path": "/models/chat/run-7", "base_model": "/models/chat/base", "adapter": "/models/chat/lora",
    }  # fmt: skip


def test_the_endpoint_is_kuberays_serve_service_with_ray_and_openai_routes():
    made = endpoint(
        "chat", ray(applications={"llm": {**LLM, "routePrefix": "/llm"}, "rag": CUSTOM}), KEY
    )
    assert made.host == "chat-serve-svc"
    assert made.protocols == (
        EndpointProtocol(kind="openai", port=8000, path="/llm/v1"),
        EndpointProtocol(kind="ray-serve", port=8000, path=""),
    )
    assert (made.served_names, made.routes) == (("llama",), (ServeRoute(prefix="/rag"),))


def test_to_rays_own_application_leads_no_way_but_the_listed_calls():
    assert [each.kind for each in endpoint("chat", ray(), KEY).protocols] == ["openai"]


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("redis:6379", {"podSelector": {}}),
        (
            "redis.cache.svc:6379",
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "cache"}}},
        ),
        ("10.0.0.9:6379", {"ipBlock": {"cidr": "10.0.0.9/32"}}),
    ],
)
def test_the_cluster_reaches_its_redis_alone(address, peer):
    made = declared(ray(gcsFaultTolerance={"redisAddress": address}))
    egress = made.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]["egress"]
    assert egress[1:] == [{"to": [peer], "ports": [{"port": 6379, "protocol": "TCP"}]}]


def test_a_redis_that_a_network_policy_cannot_name_is_told():
    made = declared(ray(gcsFaultTolerance={"redisAddress": "redis.acme.example:6379"}))
    assert any(
        "port 6379" in each.message and "redis.acme.example" in each.message
        for each in made.diagnostics
    )


def test_state_is_kept_in_redis_with_its_password_by_reference():
    gcs = service_of(
        ray(gcsFaultTolerance={"redisAddress": "redis:6379", "passwordSecret": "redis"})
    )["rayClusterConfig"]
    reference = {"secretKeyRef": {"name": "redis", "key": "password"}}
    assert gcs["gcsFaultToleranceOptions"] == {
        "redisAddress": "redis:6379",
        "redisPassword": {"valueFrom": reference},
    }


def test_one_worker_at_a_time_may_be_evicted():
    budget = (
        declared(ray(replicas=3)).one("kubernetes:policy/v1:PodDisruptionBudget").inputs["spec"]
    )
    assert budget["minAvailable"] == 2
    assert budget["selector"]["matchLabels"]["ray.io/node-type"] == "worker"
    assert declared(ray(replicas=1)).of_type("kubernetes:policy/v1:PodDisruptionBudget") == []


def test_only_gateway_operator_and_the_clusters_own_pods_reach_it():
    spec = declared(ray()).one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    gateway, operator, own = spec["ingress"]
    assert gateway["ports"] == [{"port": 8000, "protocol": "TCP"}]
    assert [each["port"] for each in operator["ports"]] == [8000, 8265]
    assert own["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "chat"


def test_rays_autoscaler_runs_as_kuberays_account_and_reaches_the_kubernetes_api():
    made = declared(ray(workerAutoscaling={"maxReplicas": 3}))
    cluster = made.one("kubernetes:ray.io/v1:RayService").inputs["spec"]["rayClusterConfig"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert "serviceAccountName" not in cluster["headGroupSpec"]["template"]["spec"]
    assert cluster["workerGroupSpecs"][0]["maxReplicas"] == 3
    # Without one of its own the namespace's Pod Security would refuse the head.
    assert cluster["autoscalerOptions"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    egress = made.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]["egress"]
    assert [each["port"] for each in egress[1]["ports"]] == [443, 6443]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"applications": {"a": CUSTOM, "b": CUSTOM}}, "both answer under /rag"),
        ({"applications": {"a": {**LLM, "tensorParallelSize": 2}}, "accelerators": 1}, "needs 2 accelerators in one worker and a worker has 1"),
        ({"applications": {"a": {**CUSTOM, "deployments": {"d": {"accelerators": 1, "numReplicas": 3}}}}}, "up to 3 accelerators"),
        ({"workerAutoscaling": {"maxReplicas": 1}, "replicas": 2}, "below replicas 2"),
        ({"applications": {"a": LLM, "b": {**LLM, "routePrefix": "/b"}}}, "as a separate model"),
        ({"applications": {"a": {**CUSTOM, "checkpointPath": "x", "args": {"checkpoint_path": "y"}}}}, "args repeats checkpoint_path"),
        ({"applications": {"a": {**LLM, "engineKwargs": {"trust_remote_code": True}}}}, "is not allowed in engineKwargs. Remove it"),
        ({"applications": {"a": {**LLM, "engineKwargs": {"pipeline_parallel_size": 2}}}}, "use the field pipelineParallelSize"),
        ({"rollout": "surge"}, "Use upgradeStrategy: NewCluster"),
    ],
)  # fmt: skip
def test_what_ray_would_only_find_out_on_the_cluster_is_refused_with_the_remedy(fields, said):
    with pytest.raises(ValidationError, match=said):
        ray(**fields)


def test_a_service_is_waited_for_until_a_worker_serves_unless_it_has_none():
    def annotations(**fields: Any) -> Any:
        return (
            declared(ray(**fields))
            .one("kubernetes:ray.io/v1:RayService")
            .inputs["metadata"]
            .get("annotations")
        )

    assert json.loads(annotations()["pulumi.com/waitFor"]) == [
        "condition=Ready",
        "condition=UpgradeInProgress=False",
    ]
    assert "pulumi.com/waitFor" not in annotations(replicas=0)


def test_the_worker_groups_that_operators_write_into_stay_ours_to_change():
    made = declared(ray()).one("kubernetes:ray.io/v1:RayService").inputs
    assert made["metadata"]["annotations"]["pulumi.com/patchForce"] == "true"


def test_the_upgrade_is_chosen_by_the_cards_that_other_models_leave_and_the_object_says_why():
    spec = ray(replicas=2)
    for others, chosen, why in (
        (0, "NewCluster", "the 6 left can hold a second set of workers"),
        (5, "None", "the 1 left cannot hold a second set of workers"),
    ):
        made = (
            declared(spec, accelerators_of_others=others)
            .one("kubernetes:ray.io/v1:RayService")
            .inputs
        )
        assert made["spec"]["upgradeStrategy"] == {"type": chosen}
        assert why in made["metadata"]["annotations"]["inferplan.dev/upgrade-strategy"]


def test_the_plan_says_which_upgrade_was_chosen_and_why():
    [said] = [each.message for each in declared(ray(replicas=2)).diagnostics]
    assert said.startswith("chat: upgradeStrategy NewCluster: pool p has 8 accelerators")


def test_an_upgrade_that_is_written_is_taken():
    assert ray(replicas=2, upgradeStrategy="None").upgrade(L40S, 0) == ("None", "as the stack says")


def test_the_gateway_learns_what_clients_may_call_of_each_application():
    apps = {
        "rag": {**CUSTOM, "methods": ["GET", "POST"], "headers": ["X-Session-Id"]},
        "talk": {**CUSTOM, "routePrefix": "/talk", "webSocket": True},
    }
    assert endpoint("chat", ray(applications=apps), KEY).routes == (
        ServeRoute(prefix="/rag", methods=("GET", "POST"), headers=("X-Session-Id",)),
        ServeRoute(prefix="/talk", web_socket=True),
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"headers": ["Cookie"]},
            (
                "Cookie is set or removed by the gateway, and clients cannot send it. Remove it"
                " from headers"
            ),
        ),
        ({"headers": ["x-forwarded-for"]}, "x-forwarded-for is set or removed by the gateway"),
        ({"headers": ["Transfer-Encoding"]}, "Transfer-Encoding is set or removed by the gateway"),
        ({"headers": ["Accept"]}, "Accept is always forwarded. Remove it from headers"),
        (
            {"headers": ["X-A", "x-a"]},
            "headers lists a name twice; case does not matter. List each name once",
        ),
        ({"headers": ["X_A"]}, "String should match pattern"),
        ({"methods": ["TRACE"]}, "Input should be 'GET', 'POST', 'PUT', 'PATCH' or 'DELETE'"),
        (
            {"methods": []},
            (
                "methods is empty and webSocket is false, so no client can call the application."
                " Add a method"
            ),
        ),
    ],
)
def test_a_call_that_must_not_pass_the_gateway_cannot_be_listed(fields, message):
    with pytest.raises(ValidationError) as error:
        ray(applications={"rag": {**CUSTOM, **fields}})
    assert message in str(error.value)
