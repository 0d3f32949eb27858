"""The router of a model: pods of smg that find the model's ready pods through the Kubernetes API.

Options, paths and ports: the package smg 1.13.0 (read 2026-11).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import SecretRef
from inferplan.components.kubernetes import apps, core, meta, networking, policy, rbac
from inferplan.components.naming import labels
from inferplan.components.network import API_PORTS, peers, pods, tcp
from inferplan.components.network import policy as network_policy
from inferplan.components.pod_parts import (
    api_token_mount,
    api_token_volume,
    container_security,
    from_pod,
    pod_security,
    spread,
)
from inferplan.components.router.spec import (
    COMPONENT,
    PORT,
    ROUTER_REQUESTS,
    RouterSpec,
    router_address,
    router_labels,
)
from inferplan.kube.names import EPHEMERAL_STORAGE, SERVER_KEY

METRICS_PORT = 29000
# Probes have a listener of their own, so that requests cannot delay them.
_PROBE_PORT = 30001
_KEY, _NEXT_KEY = "ROUTER_KEY", "NEXT_KEY"
_RBAC = "rbac.authorization.k8s.io"
_MARGIN_SECONDS = 15
# Endpoints and the gateway stop sending calls within this time.
_DEREGISTRATION_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class RoutedModel:
    """The model behind a router: the labels and the port of the pods that serve it, and the keys that
    they accept, each with a mark that changes with the key.

    `names` are those that calls may have as `model`, the server's own first. A request may take
    `drain_seconds`, and the pods need `start_seconds` until they are ready. If the model is split,
    `pods` are its decode servers and `prefill` the labels of its prefill servers.
    """

    name: str
    names: Sequence[str]
    namespace: pulumi.Input[str]
    pods: Mapping[str, str]
    port: int
    keys: Mapping[SecretRef, pulumi.Input[str]]
    gateway: Mapping[str, str]
    drain_seconds: int
    start_seconds: int
    prefill: Mapping[str, str] = field(default_factory=dict)
    bootstrap_port: int | None = None


class Router(pulumi.ComponentResource):
    """Deployment, Service, network policy, disruption budget, and an account that may read pods."""

    def __init__(
        self,
        spec: RouterSpec,
        model: RoutedModel,
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        name = router_address(model.name).host
        super().__init__("inferplan:router:Router", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        own = router_labels(model.name)
        metadata = meta.ObjectMetaArgsDict(
            name=name, namespace=model.namespace, labels=labels(COMPONENT, name)
        )
        account = core.ServiceAccount(
            name, metadata=metadata, automount_service_account_token=False, opts=child
        )
        rights = _may_read_pods(name, model, metadata, account, child)
        # The router is ready once the first pod of the model is.
        timeout = f"{model.start_seconds}s"
        apps.Deployment(
            name,
            metadata=metadata,
            spec=_deployment(spec, model, own, account.metadata["name"]),
            opts=pulumi.ResourceOptions(
                parent=self,
                # No field of a pod names the binding without which it finds no server.
                depends_on=[rights],
                custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
            ),
        )
        port = core.ServicePortArgsDict(
            name="http", port=PORT, target_port="http", protocol="TCP", app_protocol="http"
        )
        service = core.ServiceSpecArgsDict(type="ClusterIP", selector=own, ports=[port])
        core.Service(name, metadata=metadata, spec=service, opts=child)
        networking.NetworkPolicy(name, metadata=metadata, spec=_edges(spec, model, own), opts=child)
        if spec.replicas > 1:
            budget = policy.PodDisruptionBudgetSpecArgsDict(
                max_unavailable=1, selector=meta.LabelSelectorArgsDict(match_labels=own)
            )
            policy.PodDisruptionBudget(name, metadata=metadata, spec=budget, opts=child)
        self.register_outputs({"host": name, "port": PORT})


def _may_read_pods(
    name: str,
    model: RoutedModel,
    metadata: meta.ObjectMetaArgsDict,
    account: core.ServiceAccount,
    opts: pulumi.ResourceOptions,
) -> rbac.RoleBinding:
    """Let `account` list and watch the pods of its namespace, as a watch of smg needs."""
    rule = rbac.PolicyRuleArgsDict(
        api_groups=[""], resources=["pods"], verbs=["get", "list", "watch"]
    )
    role = rbac.Role(name, metadata=metadata, rules=[rule], opts=opts)
    return rbac.RoleBinding(
        name,
        metadata=metadata,
        role_ref=rbac.RoleRefArgsDict(api_group=_RBAC, kind="Role", name=role.metadata["name"]),
        subjects=[
            rbac.SubjectArgsDict(
                kind="ServiceAccount", name=account.metadata["name"], namespace=model.namespace
            )
        ],
        opts=opts,
    )


def router_args(spec: RouterSpec, model: RoutedModel) -> list[str]:
    """Return the arguments of smg, in a fixed order, so that an unchanged router shows no change."""
    length = spec.prefix_token_count
    prefix = [] if length is None else [f"--prefix-token-count={length}"]
    # smg reads the first of the names that a server lists, and calls the server by it.
    own, *others = model.names
    # smg checks the key of each call, and reads the model's names with its own.
    next_key = [f"--tenant-api-key=next:$({_NEXT_KEY})"] if len(model.keys) > 1 else []
    return [
        "--host=0.0.0.0",
        f"--port={PORT}",
        f"--policy={spec.policy}",
        *prefix,
        *_discovery(model),
        f"--service-discovery-port={model.port}",
        "--service-discovery-namespace=$(POD_NAMESPACE)",
        f"--api-key=$({_KEY})",
        *next_key,
        *(f"--model-alias={each}={own}" for each in others),
        f"--prometheus-port={METRICS_PORT}",
        f"--health-check-port={_PROBE_PORT}",
        f"--shutdown-grace-period-secs={model.drain_seconds}",
        # The router keeps no response, and downloads no tokenizer: it compares texts.
        "--history-backend=none",
        "--disable-tokenizer-autoload",
        # A lower level logs a line for each request, and the gateway has that log.
        "--log-level=warn",
    ]


def _discovery(model: RoutedModel) -> list[str]:
    """Return the labels of the pods that the router finds, of both sides if the model is split."""

    def chosen(option: str, labels: Mapping[str, str]) -> list[str]:
        return [option, *(f"{key}={value}" for key, value in labels.items())]

    if not model.prefill:
        return ["--service-discovery", *chosen("--selector", model.pods)]
    sides = {"--prefill-selector": model.prefill, "--decode-selector": model.pods}
    selectors = [word for option in sides for word in chosen(option, sides[option])]
    return ["--service-discovery", "--pd-disaggregation", *selectors]


def _deployment(
    spec: RouterSpec, model: RoutedModel, own: Mapping[str, str], account: pulumi.Input[str]
) -> apps.DeploymentSpecArgsDict:
    marks = [*model.keys.values()]
    mark = marks[0] if len(marks) == 1 else pulumi.Output.concat(marks[0], ",", *marks[1:])
    pod = core.PodSpecArgsDict(
        service_account_name=account,
        automount_service_account_token=False,
        enable_service_links=False,
        termination_grace_period_seconds=_DEREGISTRATION_SECONDS
        + model.drain_seconds
        + _MARGIN_SECONDS,
        security_context=pod_security(),
        topology_spread_constraints=spread(own, match_label_keys=["pod-template-hash"]),
        containers=[_container(spec, model)],
        volumes=[
            api_token_volume(),
            core.VolumeArgsDict(
                name="tmp", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit="128Mi")
            ),
        ],
    )
    return apps.DeploymentSpecArgsDict(
        replicas=spec.replicas,
        selector=meta.LabelSelectorArgsDict(match_labels=own),
        strategy=apps.DeploymentStrategyArgsDict(
            type="RollingUpdate",
            rolling_update=apps.RollingUpdateDeploymentArgsDict(max_surge=1, max_unavailable=0),
        ),
        progress_deadline_seconds=model.start_seconds,
        revision_history_limit=3,
        template=core.PodTemplateSpecArgsDict(
            metadata=meta.ObjectMetaArgsDict(
                labels=own,
                # A router reads keys once.
                annotations={SERVER_KEY: mark},
            ),
            spec=present(pod),
        ),
    )


def _container(spec: RouterSpec, model: RoutedModel) -> core.ContainerArgsDict:
    ready, live = (
        core.HTTPGetActionArgsDict(path=path, port="probes") for path in ("/readiness", "/liveness")
    )
    ports = {"http": PORT, "probes": _PROBE_PORT, "metrics": METRICS_PORT}
    return core.ContainerArgsDict(
        name="router",
        image=spec.image,
        command=["python3", "-m", "smg.launch_router"],
        args=router_args(spec, model),
        working_dir="/",
        env=_environment([*model.keys]),
        ports=[core.ContainerPortArgsDict(name=key, container_port=ports[key]) for key in ports],
        resources=core.ResourceRequirementsArgsDict(
            requests=dict(ROUTER_REQUESTS), limits={"memory": "1Gi", EPHEMERAL_STORAGE: "256Mi"}
        ),
        startup_probe=core.ProbeArgsDict(
            http_get=live, period_seconds=1, failure_threshold=60, timeout_seconds=2
        ),
        readiness_probe=core.ProbeArgsDict(
            http_get=ready, period_seconds=5, failure_threshold=2, timeout_seconds=2
        ),
        liveness_probe=core.ProbeArgsDict(
            http_get=live, period_seconds=10, failure_threshold=6, timeout_seconds=5
        ),
        lifecycle=core.LifecycleArgsDict(
            pre_stop=core.LifecycleHandlerArgsDict(
                sleep=core.SleepActionArgsDict(seconds=_DEREGISTRATION_SECONDS)
            )
        ),
        security_context=container_security(),
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            api_token_mount(),
            core.VolumeMountArgsDict(name="tmp", mount_path="/tmp"),  # noqa: S108 - a volume of the pod's own
        ],
    )


def _environment(keys: Sequence[SecretRef]) -> list[core.EnvVarArgsDict]:
    secrets = [
        core.EnvVarArgsDict(
            name=name,
            value_from=core.EnvVarSourceArgsDict(
                secret_key_ref=core.SecretKeySelectorArgsDict(name=key.name, key=key.key)
            ),
        )
        for name, key in zip((_KEY, _NEXT_KEY), keys, strict=False)
    ]
    plain = {"HF_HUB_OFFLINE": "1", "HOME": "/tmp"}  # noqa: S108 - a volume of the pod's own
    return [
        *(core.EnvVarArgsDict(name=key, value=value) for key, value in plain.items()),
        from_pod("POD_NAMESPACE", "metadata.namespace"),
        *secrets,
    ]


def _edges(
    spec: RouterSpec, model: RoutedModel, own: Mapping[str, str]
) -> networking.NetworkPolicySpecArgsDict:
    """Return the network policy: the gateway alone calls the router, which calls the model's pods and
    the Kubernetes API.
    """
    prompts = tcp(*([model.bootstrap_port] if model.bootstrap_port else []), model.port)
    inward, outward = (
        networking.NetworkPolicyIngressRuleArgsDict,
        networking.NetworkPolicyEgressRuleArgsDict,
    )
    return network_policy(
        own,
        ingress=[inward(from_=[pods(model.gateway)], ports=tcp(PORT))],
        egress=[
            outward(to=[pods(model.pods)], ports=tcp(model.port)),
            *([outward(to=[pods(model.prefill)], ports=prompts)] if model.prefill else []),
            outward(to=peers("", spec.api_networks), ports=tcp(*API_PORTS)),
        ],
    )
