"""The objects of one model that is served from a Deployment, the same for every engine.

It serves inside the cluster only. The gateway checks the consumers' keys; none of them reaches a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.policy import v1 as policy

from components.egress import store_edges
from components.fields import present
from components.handles import Endpoint, ModelMount, ObjectStore
from components.naming import bounded, content_key, labels, selector
from components.network import pods, tcp
from components.network import policy as network_policy
from components.preheat.spec import PreheatSpec
from components.preheat.verify import ready_check
from components.serving import groups, workload
from components.serving.artifacts import gate, with_artifacts
from components.serving.engine import Site
from components.serving.hardware import missing_libraries
from components.serving.scaling import ignored_fields, scaler
from components.serving.served_model import ServedModel
from kube.names import SERVER_KEY

MODEL_SERVICE = "inferplan:serving:ModelService"
"""The component type of every model. It names no engine: the URNs of a model's objects must survive a change of engine."""
FILES_VOLUME = "files"
MODEL_VOLUME = "model"


class ModelService(pulumi.ComponentResource):
    """Deployment (or LeaderWorkerSet), Service, network policy, disruption budget, and a ConfigMap if the engine has files; exports `endpoint`."""

    endpoint: Endpoint

    def __init__(
        self,
        name: str,
        spec: ServedModel,
        site: Site,
        *,
        server: workload.Server,
        endpoint: Endpoint,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(MODEL_SERVICE, name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        if (missing := missing_libraries(name, spec, site.target)) is not None:
            pulumi.log.warn(missing, self)
        metadata = object_meta(name, site.namespace)
        times = workload.budget(spec, spec.accelerators_per_pod * spec.pods, site.target)
        account = core.ServiceAccount(name, metadata=_account_meta(name, site), automount_service_account_token=False, opts=child)
        volumes = list(server.volumes)
        if server.files:
            files = files_map(name, site, server.files, opts=child)
            volumes.append(files_volume(files, server.files))
        server = with_artifacts(refusing_unverified(server, site.weights, spec.preheat), site.artifacts, MODEL_VOLUME, spec.preheat)
        server = restarted_with_its_key(server, site)
        template = partial(
            workload.pod, name, spec, target=site.target, times=times, volumes=volumes, service_account=account.metadata.name
        )
        opened = gated(self, self.before_servers(site), times.rollout)
        if spec.pods == 1:
            # Kueue's webhook writes the queue into the pods as well; because it is also declared here, no later update removes it.
            leader = groups.leader_of(server)
            queued = replace(leader, labels={**leader.labels, **site.queue_labels})
            apps.Deployment(
                name,
                metadata=object_meta(name, site.namespace, site.queue_labels),
                spec=workload.deployment(name, spec, template(queued), times=times),
                opts=scaled(opened, spec, "Deployment"),
            )
        else:
            leader, worker = template(groups.leader_of(server)), template(groups.worker_of(server, site.server_key_marks))
            groups.leader_worker_set(name, spec, leader, worker, site=site, opts=scaled(opened, spec, "LeaderWorkerSet"))
        scaler(
            name,
            spec,
            target=groups.scale_target(name, spec),
            metadata=metadata,
            times=times,
            prometheus=site.prometheus,
            opts=child,
        )
        core.Service(name, metadata=metadata, spec=_service(groups.answering(name), server.ports), opts=child)
        networking.NetworkPolicy(name, metadata=metadata, spec=edges(name, spec, site, endpoint), opts=child)
        if spec.max_replicas > 1:
            policy.PodDisruptionBudget(name, metadata=metadata, spec=_budget(name), opts=child)
        self.endpoint = endpoint
        self.register_outputs({"host": endpoint.host, "port": endpoint.protocols[0].port})

    def before_servers(self, site: Site) -> Site:
        """Declare what an engine makes of the weights before servers may start; return the site with the gate to wait for."""
        return site


def object_meta(name: str, namespace: pulumi.Input[str], more: Mapping[str, str] | None = None) -> meta.ObjectMetaArgsDict:
    """Return the metadata of an object of model `name` that has the same name, with `more` labels."""
    return meta.ObjectMetaArgsDict(name=name, namespace=namespace, labels={**labels(workload.COMPONENT, name), **(more or {})})


def _account_meta(name: str, site: Site) -> meta.ObjectMetaArgsDict:
    identity = site.weights.identity if isinstance(site.weights, ObjectStore) else None
    annotations = dict(identity.annotations) if identity is not None else {}
    return present(
        meta.ObjectMetaArgsDict(
            name=name, namespace=site.namespace, labels=labels(workload.COMPONENT, name), annotations=annotations or None
        )
    )


def files_map(name: str, site: Site, files: Mapping[str, str], *, opts: pulumi.ResourceOptions) -> core.ConfigMap:
    """Create the ConfigMap of an engine's small files, named by content: a change creates a new one, and old pods keep theirs."""
    data = {key_of(path): text for path, text in files.items()}
    called = bounded(f"{name}-files", content_key(*(part for item in sorted(data.items()) for part in item)))
    metadata = meta.ObjectMetaArgsDict(name=called, namespace=site.namespace, labels=labels(workload.COMPONENT, name))
    return core.ConfigMap(called, metadata=metadata, data=data, immutable=True, opts=opts)


def key_of(path: str) -> str:
    """Return the ConfigMap key of the file at `path`: keys contain no slash, and these paths no two dots in a row."""
    return path.replace("/", "..")


def files_volume(files: core.ConfigMap, paths: Mapping[str, str]) -> core.VolumeArgsDict:
    """Return the volume with the ConfigMap's files at their paths."""
    items = [core.KeyToPathArgsDict(key=key_of(path), path=path) for path in sorted(paths)]
    return core.VolumeArgsDict(name=FILES_VOLUME, config_map=core.ConfigMapVolumeSourceArgsDict(name=files.metadata.name, items=items))


def model_volumes(weights: ModelMount | None) -> list[core.VolumeArgsDict]:
    """Return the volume of the model's mounted files, if it has files: read-only, unless a container writes to the mount's folder.

    A pod names a claim once: with two volumes of one claim the kubelet waits forever (kubernetes/kubernetes issues 51853 and 82526).
    """
    if weights is None:
        return []
    claim = present(
        core.PersistentVolumeClaimVolumeSourceArgsDict(claim_name=weights.claim.name, read_only=True if weights.folder is None else None)
    )
    return [core.VolumeArgsDict(name=MODEL_VOLUME, persistent_volume_claim=claim)]


def model_mounts(path: str, weights: ModelMount | None) -> list[core.VolumeMountArgsDict]:
    """Return the mount of the model's directory, if it has one, at `path`."""
    return (
        [] if weights is None else [core.VolumeMountArgsDict(name=MODEL_VOLUME, mount_path=path, sub_path=weights.sub_path, read_only=True)]
    )


def refusing_unverified(server: workload.Server, weights: ModelMount | ObjectStore | None, preheat: PreheatSpec | None) -> workload.Server:
    """Return `server` with an init container that ends with an error unless the mounted files are marked READY.

    The Job is awaited before the first pod; a pod that starts months later may find a changed share.
    """
    files = weights.sub_path if isinstance(weights, ModelMount) else None
    mounts = [each for each in server.mounts if each["name"] == MODEL_VOLUME and each.get("sub_path") == files]
    gates = verification(weights, mounts, preheat)
    return replace(server, init_containers=(*gates, *server.init_containers))


def restarted_with_its_key(server: workload.Server, site: Site) -> workload.Server:
    """Return `server` with a mark of each key that it reads in the pod template: it reads keys once, and would keep accepting old ones."""
    marks = [mark for key, mark in site.server_key_marks.items() if key in server.secret_env.values()]
    if not marks:
        return server
    mark = marks[0] if len(marks) == 1 else pulumi.Output.concat(marks[0], ",", *marks[1:])
    return replace(server, annotations={**server.annotations, SERVER_KEY: mark})


def verification(
    weights: ModelMount | ObjectStore | None, mounts: Sequence[core.VolumeMountArgsDict], preheat: PreheatSpec | None
) -> list[core.ContainerArgsDict]:
    """Return the init container that checks the READY mark at the mount of the files; none if files have no mark."""
    if not isinstance(weights, ModelMount) or not weights.marked:
        return []
    mount = mounts[0]  # a model whose file is at the root of the weights mounts that directory twice
    return [gate("verified", ready_check(str(mount["mount_path"])), mount, preheat)]


def gated(component: pulumi.Resource, site: Site, rollout_seconds: int) -> pulumi.ResourceOptions:
    """Return the options of the object that starts servers: it waits for files and images, and has the timeout of a rollout."""
    weights = site.weights
    gates = [weights.gate] if isinstance(weights, ModelMount) else []
    if isinstance(weights, ObjectStore) and weights.identity is not None:
        gates.append(weights.identity.ready)
    gates += [mount.gate for mount in site.artifacts.values()]
    timeout = f"{rollout_seconds}s"
    return pulumi.ResourceOptions(
        parent=component,
        # No field of a pod names the Job that fills its share, or the role that lets it read: without this edge servers would
        # start on an empty directory, or without credentials, which a pod gets only at admission. The gateway is a dependency
        # because of a destroy: servers drain while the gateway still forwards their last responses.
        depends_on=[gate for gate in (*gates, site.images, site.queue, *site.gateway_ready) if gate is not None],
        custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
    )


def scaled(opts: pulumi.ResourceOptions, spec: ServedModel, kind: str) -> pulumi.ResourceOptions:
    """Return `opts` of a workload of `kind`, without changes of what the model's scaler owns."""
    ignored = ignored_fields(spec, kind)
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(ignore_changes=ignored)) if ignored else opts


def edges(name: str, spec: ServedModel, site: Site, endpoint: Endpoint) -> networking.NetworkPolicySpecArgsDict:
    """Return the network policy: the gateway reaches the ports of the endpoint's protocols, pods reach each other and their bucket."""
    ports = sorted({protocol.port for protocol in endpoint.protocols})
    inbound = networking.NetworkPolicyIngressRuleArgsDict(from_=[pods(site.gateway)], ports=tcp(*ports))
    inside, outside = groups.edges(spec, selector(workload.COMPONENT, name))
    buckets = store_edges(site.weights) if isinstance(site.weights, ObjectStore) else []
    return network_policy(selector(workload.COMPONENT, name), ingress=[inbound, *inside], egress=[*buckets, *outside])


def _service(chosen: Mapping[str, str], ports: Mapping[str, int]) -> core.ServiceSpecArgsDict:
    protocols = {"grpc": "kubernetes.io/h2c"}
    return core.ServiceSpecArgsDict(
        type="ClusterIP",
        selector=dict(chosen),
        ports=[
            core.ServicePortArgsDict(name=port, port=number, target_port=port, protocol="TCP", app_protocol=protocols.get(port, "http"))
            for port, number in ports.items()
        ],
    )


def _budget(name: str) -> policy.PodDisruptionBudgetSpecArgsDict:
    return policy.PodDisruptionBudgetSpecArgsDict(
        max_unavailable=1, selector=meta.LabelSelectorArgsDict(match_labels=selector(workload.COMPONENT, name))
    )
