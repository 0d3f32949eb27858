"""The objects of one model that is served from a Deployment or a LeaderWorkerSet, inside the
cluster, the same for every engine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

import pulumi

from inferplan.components.gateway.budget_pods import PORT
from inferplan.components.handles import Endpoint, SecretRef
from inferplan.components.kubernetes import apps, core, meta, networking, policy, resource
from inferplan.components.naming import bounded, content_key, selector
from inferplan.components.network import pods, server_edges, store_edges, tcp
from inferplan.components.network import policy as network_policy
from inferplan.components.serving import groups, server_container, workload
from inferplan.components.serving.claims import claim_name, claimed, pod_claims
from inferplan.components.serving.engine import Site
from inferplan.components.serving.hardware import missing_libraries
from inferplan.components.serving.model_parts import PodModel, StoredModel
from inferplan.components.serving.scaling import scaler
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.serving.volumes import (
    FILES_VOLUME,
    LIVE_VOLUME,
    artifact_gates,
    artifact_mounts,
    config_map_volume,
    key_of,
    weights_gate,
)
from inferplan.components.serving.workload import object_meta
from inferplan.kube.field_owners import SCALED
from inferplan.kube.names import SERVER_KEY

AnyModel = TypeVar("AnyModel", bound=ServedModel)

MODEL_SERVICE = "inferplan:serving:ModelService"
"""The component type of every model. It names no engine: the URNs of a model's objects must survive
a change of engine.
"""


class ModelService(pulumi.ComponentResource):
    """Deployment (or LeaderWorkerSet), Service, network policy, disruption budget, and a ConfigMap
    for files; exports `endpoint`.
    """

    endpoint: Endpoint

    def __init__(
        self,
        name: str,
        spec: ServedModel,
        site: Site,
        *,
        server: server_container.Server,
        endpoint: Endpoint,
        prepare: Callable[[Site, pulumi.ResourceOptions], Site] = lambda site, _: site,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(MODEL_SERVICE, name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        if (missing := missing_libraries(name, spec, site.target)) is not None:
            pulumi.log.warn(missing, self)
        metadata = object_meta(name, site)
        times = workload.budget(spec, site.target, site.weights)
        account = _account(name, site, child)
        server = _with_files(name, site, server, opts=child)
        server = _with_live_files(name, spec, site, server, opts=child)
        server = _with_verified_files(_restarted_with_its_key(server, site), spec, site)
        template = partial(
            workload.server_pod,
            name,
            spec,
            target=site.target,
            times=times,
            service_account=account.metadata["name"],
            claims=pod_claims(_claim_template(name, spec, site, child), site.shared_claim),
        )
        target = groups.scale_target(name, spec)
        # The number of replicas of a scaled workload belongs to its scaler.
        opened = gated(
            self,
            prepare(site, child),
            times.rollout,
            SCALED[target["kind"]] if spec.scaling else (),
        )
        leader = groups.leader_of(server)
        if spec.pods == 1:
            # Kueue's webhook writes the queue into the pods as well; because it is also declared
            # here, no later update removes it.
            own = {**leader.labels, **site.queue_labels, **spec.sides(name)}
            pod = template(replace(leader, labels=own))
            deployment = groups.deployment(name, spec, pod, times=times)
            made = apps.Deployment(
                name, metadata=object_meta(name, site, queued=True), spec=deployment, opts=opened
            )
        else:
            worker = groups.worker_of(server, site.server_key_marks)
            made = groups.leader_worker_set(
                name, spec, template(leader), template(worker), site=site, opts=opened
            )
        site.peers.append(made)
        scaler(name, spec, site, target=target, metadata=metadata, times=times, opts=child)
        if name == spec.whole(name):
            self._call(name, spec, site, server.ports, child)
        networking.NetworkPolicy(
            name, metadata=metadata, spec=_edges(name, spec, site, endpoint), opts=child
        )
        if spec.max_replicas > 1:
            policy.PodDisruptionBudget(name, metadata=metadata, spec=_budget(name), opts=child)
        self.endpoint = endpoint
        self.register_outputs({"host": endpoint.host, "port": endpoint.protocols[0].port})

    def _call(
        self,
        name: str,
        spec: ServedModel,
        site: Site,
        ports: Mapping[str, int],
        child: pulumi.ResourceOptions,
    ) -> None:
        """Declare the Service of the model, and let the sides of a split one reach each other."""
        metadata, sides = object_meta(name, site), spec.sides(name)
        serves = sides if sides and spec.sides_answer_alone else groups.answering(name)
        # Pods of a model that becomes split have no label of its sides, and answer until then.
        ready = pulumi.ResourceOptions(parent=self, depends_on=site.peers) if sides else child
        core.Service(name, metadata=metadata, spec=_service(serves, ports), opts=ready)
        if sides:
            # Both sides pick ports at their start.
            inside, outside = groups.pod_edges(sides)
            called = f"{name}-transfer"
            networking.NetworkPolicy(
                called,
                metadata=object_meta(name, site, called=called),
                spec=network_policy(sides, ingress=inside, egress=outside),
                opts=child,
            )


def _account(name: str, site: Site, opts: pulumi.ResourceOptions) -> core.ServiceAccount:
    identity = None if site.streamed is None else site.streamed.identity
    metadata = object_meta(
        name, site, annotations=None if identity is None else identity.annotations
    )
    return core.ServiceAccount(
        name, metadata=metadata, automount_service_account_token=False, opts=opts
    )


def _claim_template(
    name: str, spec: PodModel, site: Site, opts: pulumi.ResourceOptions
) -> pulumi.Output[str] | None:
    """Declare the template of the claims for accelerators, and return its name; None if a device
    plugin offers them, or pods share one.
    """
    claim = claimed(site.target, spec.accelerators_per_pod)
    if claim is None or site.shared_claim is not None:
        return None
    called = claim_name(f"{name}-devices", claim)
    template = resource.ResourceClaimTemplate(
        called,
        metadata=object_meta(name, site, called=called),
        spec=cast("resource.ResourceClaimTemplateSpecArgsDict", {"spec": claim}),
        opts=opts,
    )
    return template.metadata["name"]


def _budget(name: str) -> policy.PodDisruptionBudgetSpecArgsDict:
    chosen = meta.LabelSelectorArgsDict(match_labels=selector(workload.COMPONENT, name))
    return policy.PodDisruptionBudgetSpecArgsDict(max_unavailable=1, selector=chosen)


def serving(
    server: Callable[[str, AnyModel, Site], server_container.Server],
    endpoint: Callable[[str, AnyModel, SecretRef], Endpoint],
) -> Callable[..., Endpoint]:
    """Return the `serve` of an engine whose models are a ModelService with `server`."""

    def serve(
        name: str, spec: AnyModel, site: Site, *, opts: pulumi.ResourceOptions | None = None
    ) -> Endpoint:
        exported = endpoint(name, spec, site.server_key)
        return ModelService(
            name, spec, site, server=server(name, spec, site), endpoint=exported, opts=opts
        ).endpoint

    return serve


def _with_files(
    name: str, site: Site, server: server_container.Server, *, opts: pulumi.ResourceOptions
) -> server_container.Server:
    """Return `server` with a volume of its small files, from a ConfigMap that is named by content:
    a change creates a new one, and old pods keep theirs.
    """
    if not server.files:
        return server
    data = {key_of(path): text for path, text in server.files.items()}
    called = bounded(
        f"{name}-files", content_key(*(part for item in sorted(data.items()) for part in item))
    )
    files = core.ConfigMap(
        called,
        metadata=object_meta(name, site, called=called),
        data=data,
        immutable=True,
        opts=opts,
    )
    volume = config_map_volume(FILES_VOLUME, files.metadata["name"], [*server.files])
    return replace(server, volumes=(*server.volumes, volume))


def _with_live_files(
    name: str,
    spec: StoredModel,
    site: Site,
    server: server_container.Server,
    *,
    opts: pulumi.ResourceOptions,
) -> server_container.Server:
    """Return `server` with a volume of the files that change while pods run, from a ConfigMap whose
    name stays. It changes only after the artifacts that it names are copied.
    """
    if not server.live_files:
        return server
    called = f"{name}-live"
    copied = [site.artifacts[each].gate for each in sorted(spec.runtime_artifacts)]
    gates = pulumi.ResourceOptions(depends_on=[gate for gate in copied if gate is not None])
    files = core.ConfigMap(
        called,
        metadata=object_meta(name, site, called=called),
        data=dict(server.live_files),
        opts=pulumi.ResourceOptions.merge(opts, gates),
    )
    volume = config_map_volume(LIVE_VOLUME, files.metadata["name"], [*server.live_files])
    return replace(server, volumes=(*server.volumes, volume))


def _with_verified_files(
    server: server_container.Server, spec: StoredModel, site: Site
) -> server_container.Server:
    artifacts = {
        name: mount for name, mount in site.artifacts.items() if name not in spec.runtime_artifacts
    }
    gates = [
        *artifact_gates(artifacts, spec.preheat),
        *weights_gate(site.weights, server.mounts, spec.preheat),
    ]
    mounts = (*server.mounts, *artifact_mounts(artifacts))
    return replace(server, mounts=mounts, init_containers=(*gates, *server.init_containers))


def _restarted_with_its_key(server: server_container.Server, site: Site) -> server_container.Server:
    """Return `server` with a mark of each key that it reads in the pod template: it reads keys
    once, and would keep accepting old ones.
    """
    marks = [
        mark for key, mark in site.server_key_marks.items() if key in server.secret_env.values()
    ]
    if not marks:
        return server
    mark = marks[0] if len(marks) == 1 else pulumi.Output.concat(marks[0], ",", *marks[1:])
    return replace(server, annotations={**server.annotations, SERVER_KEY: mark})


def gated(
    component: pulumi.Resource, site: Site, rollout_seconds: int, ignored: Sequence[str] = ()
) -> pulumi.ResourceOptions:
    """Return the options of the object that starts servers: it waits for files and images, has the
    timeout of a rollout, and keeps `ignored` fields.
    """
    gates = [] if site.mount is None else [site.mount.gate]
    gates += () if site.streamed is None else site.streamed.gates
    gates += [mount.gate for mount in site.artifacts.values()]
    timeout = f"{rollout_seconds}s"
    return pulumi.ResourceOptions(
        parent=component,
        # No field of a pod names the Job that fills its share, or the role that lets it read:
        # without this edge servers would start on an empty directory, or without credentials, which
        # a pod gets only at admission. The gateway is a dependency because of a destroy: servers
        # drain while the gateway still forwards their last responses.
        depends_on=[
            gate
            for gate in (*gates, site.images, site.queue, *site.gateway_ready, *site.peers)
            if gate is not None
        ],
        custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
        ignore_changes=list(ignored) or None,
    )


def _edges(
    name: str, spec: PodModel, site: Site, endpoint: Endpoint
) -> networking.NetworkPolicySpecArgsDict:
    """Return the network policy: the gateway and the router reach the ports of the endpoint's
    protocols, pods reach each other, their bucket and their egress.
    """
    ports = sorted({protocol.port for protocol in endpoint.protocols})
    own = selector(workload.COMPONENT, name)
    callers = [pods(site.gateway)]
    if (router := spec.router_pods(name)) is not None:
        callers.append(pods(router))
    inbound = networking.NetworkPolicyIngressRuleArgsDict(from_=callers, ports=tcp(*ports))
    announced = []
    if router is not None and spec.bootstrap_port is not None and name != spec.whole(name):
        announced = [
            networking.NetworkPolicyIngressRuleArgsDict(
                from_=[pods(router)], ports=tcp(spec.bootstrap_port)
            )
        ]
    inside, outside = ([], []) if spec.pods == 1 else groups.pod_edges(own)
    buckets = [] if site.streamed is None else store_edges(site.streamed)
    reports = networking.NetworkPolicyEgressRuleArgsDict(to=[pods(site.gateway)], ports=tcp(PORT))
    counts = [reports] if site.counts_tokens else []
    return network_policy(
        own,
        ingress=[inbound, *announced, *inside],
        egress=[*buckets, *outside, *server_edges(spec.egress.edges()), *counts],
    )


def _service(chosen: Mapping[str, str], ports: Mapping[str, int]) -> core.ServiceSpecArgsDict:
    protocols = {"grpc": "kubernetes.io/h2c"}
    return core.ServiceSpecArgsDict(
        type="ClusterIP",
        selector=dict(chosen),
        ports=[
            core.ServicePortArgsDict(
                name=port,
                port=number,
                target_port=port,
                protocol="TCP",
                app_protocol=protocols.get(port, "http"),
            )
            for port, number in ports.items()
        ],
    )
