"""What a stack declares for Prometheus: every replica is found and reachable, traces may leave, and
scalers log in.
"""

from __future__ import annotations

import json

import pytest

from inferplan.planning.required_secrets import required_secrets
from inferplan.stackfile.reader import read_stack
from tests.unit.gateway.network_policies import NetworkEndpoint, reaches
from tests.unit.gateway.whole_stack import ROOT, recorded, refusals

MONITOR = "kubernetes:monitoring.coreos.com/v1:PodMonitor"
PROMETHEUS = {"namespace": "watch", "url": "http://prometheus.watch.svc:9090"}
READER = NetworkEndpoint("prometheus", "watch", {"app.kubernetes.io/name": "prometheus"})
STRANGER = NetworkEndpoint("stranger", "web", {"app.kubernetes.io/name": "prometheus"})
COLLECTOR = NetworkEndpoint("collector", "tracing", {"app": "collector"})


def whole(**monitoring):
    local = json.loads(read_stack(ROOT / "stacks" / "Pulumi.local.yaml").config["inferplan:models"])
    triton = json.loads(
        read_stack(ROOT / "docs" / "engines" / "Pulumi.triton.yaml").config["inferplan:models"]
    )
    ray = json.loads(
        read_stack(ROOT / "docs" / "engines" / "Pulumi.ray-serve.yaml").config["inferplan:models"]
    )
    vision = next(model for model in triton.values() if model.get("frontend") != "openai")
    chosen = {
        "llama-3-8b": {**local["llama-3-8b"], "replicas": {"min": 1, "max": 2}},
        "vision": {**vision, "consumers": ["chat"]},
        "tuned": {**ray["tuned"], "consumers": ["chat"]},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return recorded(models=chosen, monitoring={"prometheus": PROMETHEUS, **monitoring})


@pytest.fixture(scope="module")
def scraped():
    tracing = {"url": "http://collector.tracing.svc:4318/v1/traces", "percent": 10}
    exporters = {
        "keda": "keda",
        "dcgm": "gpu-operator",
        "gaudi": "habana-system",
        "amd": "kube-amd-gpu",
    }
    login = {"prometheus": {**PROMETHEUS, "login": {"mode": "basic", "secretName": "prom"}}}
    return whole(
        scrape={"preheats": True, "exporters": exporters},
        labels={"release": "stack"},
        tracing=tracing,
        **login,
    )


@pytest.fixture(scope="module")
def plain():
    return whole()


def templates(recording):
    """The pod templates of the stack's namespace that stay or run: by name."""
    for each in recording:
        spec = each.inputs.get("spec") or {}
        if each.type in ("kubernetes:apps/v1:Deployment", "kubernetes:batch/v1:Job"):
            yield f"{each.type.rpartition(':')[2]} {each.name}", spec["template"]
        if each.type == "kubernetes:ray.io/v1:RayService":
            cluster = spec["rayClusterConfig"]
            yield f"head of {each.name}", cluster["headGroupSpec"]["template"]
            yield f"worker of {each.name}", cluster["workerGroupSpecs"][0]["template"]


def chosen_by(monitor, labels) -> bool:
    selector = monitor["selector"]
    expressions = (
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ())
    )
    return all(expressions) and selector.get("matchLabels", {}).items() <= labels.items()


def declared_ports(template):
    containers = [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]
    return {port["containerPort"] for each in containers for port in each.get("ports", ())}


def scrapes(recording):
    """Each pod template and the ports at which Prometheus scrapes it, as the operator finds them."""
    monitors = [each.inputs["spec"] for each in recording.of_type(MONITOR)]
    own = [each for each in monitors if "namespaceSelector" not in each]
    for name, template in templates(recording):
        labels = template["metadata"]["labels"]
        ports = [
            e["portNumber"]
            for each in own
            if chosen_by(each, labels)
            for e in each["podMetricsEndpoints"]
        ]
        yield name, template, [port for port in ports if port in declared_ports(template)]


def test_every_pod_with_metrics_is_scraped_once_and_reachable_for_prometheus_alone(scraped):
    policies = [
        each.inputs for each in scraped.of_type("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    ]
    found = list(scrapes(scraped))
    assert {name: ports for name, _, ports in found} == {
        "Deployment gateway": [8081],
        "Deployment llama-3-8b": [8000],
        "Deployment vision": [8002],
        "head of tuned": [8080],
        "worker of tuned": [8080],
        **{name: [9091] for name, _, _ in found if name.startswith("Job ")},
    }
    assert sum(name.startswith("Job ") for name, _, _ in found) == 3
    for name, template, [port] in found:
        pod = NetworkEndpoint(name, "inference", template["metadata"]["labels"])
        assert reaches(READER, pod, port, policies), name
        # vLLM's port is the one of its API, which nobody but the gateway and Prometheus reaches.
        assert not reaches(STRANGER, pod, port, policies), name


def test_series_say_which_model_and_engine_they_are_of(scraped):
    monitor = scraped.one(MONITOR, "models-triton").inputs
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert {each["targetLabel"]: each.get("replacement") for each in endpoint["relabelings"]} == {
        "model": None,
        "engine": "triton",
    }
    assert monitor["metadata"]["labels"]["release"] == "stack"


def test_exporters_are_scraped_in_their_own_namespace(scraped):
    places = {
        each.name: each.inputs["spec"]["namespaceSelector"]["matchNames"]
        for each in scraped.of_type(MONITOR)
        if each.name.startswith("exporter-")
    }
    assert places == {
        "exporter-keda": ["keda"],
        "exporter-dcgm": ["gpu-operator"],
        "exporter-gaudi": ["habana-system"],
        "exporter-amd": ["kube-amd-gpu"],
    }


def test_engines_that_can_send_traces_do_and_reach_the_collector_alone(scraped):
    policies = [
        each.inputs for each in scraped.of_type("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    ]
    of = {
        name.removeprefix("Deployment "): template
        for name, template in templates(scraped)
        if name.startswith("Deployment ")
    }
    reached = {
        name: reaches(
            NetworkEndpoint(name, "inference", each["metadata"]["labels"]),
            COLLECTOR,
            4318,
            policies,
        )
        for name, each in of.items()
    }
    assert reached == {"gateway": False, "llama-3-8b": True, "vision": True}
    chat, vision = (of[name]["spec"]["containers"][0] for name in ("llama-3-8b", "vision"))
    assert "--otlp-traces-endpoint=http://collector.tracing.svc:4318/v1/traces" in chat["args"]
    env = {each["name"]: each.get("value") for each in chat["env"]}
    assert (env["OTEL_TRACES_SAMPLER_ARG"], env["OTEL_SERVICE_NAME"]) == ("0.1", "llama-3-8b")
    assert "--trace-config=rate=10" in vision["args"]
    assert (
        "--trace-config=opentelemetry,url=http://collector.tracing.svc:4318/v1/traces"
        in vision["args"]
    )


def test_scalers_log_in_with_the_secret(scraped, plain):
    login = scraped.one("kubernetes:keda.sh/v1alpha1:TriggerAuthentication").inputs
    assert {
        each["parameter"]: (each["name"], each["key"]) for each in login["spec"]["secretTargetRef"]
    } == {
        "username": ("prom", "username"),
        "password": ("prom", "password"),
    }
    triggers = scraped.one("kubernetes:keda.sh/v1alpha1:ScaledObject").inputs["spec"]["triggers"]
    assert {
        (each["authenticationRef"]["name"], each["metadata"]["authModes"]) for each in triggers
    } == {(login["metadata"]["name"], "basic")}
    [needed] = [each for each in required_secrets(scraped, "inference") if each.name == "prom"]
    assert needed.keys == ("password", "username")
    assert not plain.of_type("kubernetes:keda.sh/v1alpha1:TriggerAuthentication")
    assert "authModes" not in str(plain.one("kubernetes:keda.sh/v1alpha1:ScaledObject").inputs)


def test_annotations_mark_the_pods_instead_of_objects():
    recording = whole(scrape={"by": "annotations", "preheats": True})
    assert not recording.of_type(MONITOR)
    marked = {
        name: template["metadata"].get("annotations", {}) for name, template in templates(recording)
    }
    ports = {name: each.get("prometheus.io/port") for name, each in marked.items()}
    assert (ports["Deployment vision"], ports["head of tuned"], ports["Deployment gateway"]) == (
        "8002",
        "8080",
        "8081",
    )
    assert None not in ports.values()


def test_a_stack_that_asks_for_nothing_gets_nothing(plain):
    text = str([each.inputs for each in plain])
    assert "serve_metrics" not in str([each.inputs for each in whole(scrape={})])
    for word in (
        "PodMonitor",
        "prometheus.io/",
        "otlp",
        "trace-config",
        "answers.js",
        "serve_metrics",
    ):
        assert word not in text


def test_the_policy_pack_accepts_what_monitoring_declares(scraped, plain):
    assert refusals(scraped) == refusals(plain)
