"""The pods of model servers, the same for every engine: placement, identity, probes, volumes,
rollout.
"""

from collections.abc import Mapping
from typing import cast

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import core, meta
from inferplan.components.naming import labels, selector
from inferplan.components.pod_parts import (
    pod_security,
    spread,
    tolerations_of,
)
from inferplan.components.serving.demand import (
    Timing,
    replica_scratch,
    timing,
)
from inferplan.components.serving.engine import Site
from inferplan.components.serving.model_parts import PodModel, TimedModel
from inferplan.components.serving.pod_settings import PodSettings
from inferplan.components.serving.server_container import Server, server_container
from inferplan.components.serving.volumes import (
    extra_volumes,
    scratch,
)
from inferplan.components.sources import ModelMount, ModelSource
from inferplan.kube.names import MODEL_REVISION
from inferplan.kube.quantity import bytes_of

COMPONENT = "model"
_WARMUP_SECONDS = 300


def object_meta(
    name: str,
    site: Site,
    *,
    called: str | None = None,
    queued: bool = False,
    annotations: Mapping[str, pulumi.Input[str]] | None = None,
) -> meta.ObjectMetaArgsDict:
    """Return the metadata of an object of model `name`, which has the same name unless it is
    `called` otherwise.
    """
    own = {**labels(COMPONENT, name), **(site.queue_labels if queued else {})}
    return present(
        meta.ObjectMetaArgsDict(
            name=called or name,
            namespace=site.namespace,
            labels=own,
            annotations=annotations or None,
        )
    )


def budget(
    spec: TimedModel, target: NodeTarget, weights: ModelMount | ModelSource | None = None
) -> Timing:
    """Return the model's time budgets; weights of unknown size count as much as the memory of all
    its accelerators can hold. Weights in an image are pulled first.
    """
    accelerator = target.accelerator
    memory = (
        0
        if accelerator is None
        else accelerator.memory_bytes * spec.accelerators_per_pod * spec.pods
    )
    warmup = spec.warmup_seconds
    if warmup is None:
        warmup = _WARMUP_SECONDS
        if accelerator is not None and spec.warms_up:
            warmup = accelerator.vendor.warmup_seconds
    size = (
        bytes_of(spec.stored_files.size) if spec.stored_files and spec.stored_files.size else memory
    )
    is_image = isinstance(weights, ModelMount) and weights.claim.is_image
    return timing(
        model_bytes=size,
        load_mib_per_second=spec.load_mib_per_second,
        warmup_seconds=warmup,
        drain_seconds=spec.drain_seconds,
        replicas=spec.max_replicas if spec.scaling else spec.min_replicas,
        pulled=size if is_image else 0,
    )


def server_pod(
    name: str,
    spec: PodModel,
    server: Server,
    *,
    target: NodeTarget,
    times: Timing,
    service_account: pulumi.Input[str],
    claims: list[core.PodResourceClaimArgsDict] | None = None,
) -> core.PodTemplateSpecArgsDict:
    """Return the template of a server's pods, with the devices of `claims`."""
    pod = core.PodSpecArgsDict(
        service_account_name=service_account,
        automount_service_account_token=False,
        termination_grace_period_seconds=times.grace,
        security_context=pod_security(group=server.group),
        init_containers=list(server.init_containers) or None,
        containers=[server_container(spec, server, target=target, times=times)],
        resource_claims=claims,
        volumes=[
            *scratch(replica_scratch(spec, spec.accelerators_per_pod, target), target),
            *server.volumes,
            *extra_volumes(spec),
        ],
    )
    return placed(name, spec, target, pod, labels=server.labels, annotations=server.annotations)


def placed(
    name: str,
    spec: PodModel,
    target: NodeTarget,
    pod: core.PodSpecArgsDict,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, pulumi.Input[str]],
) -> core.PodTemplateSpecArgsDict:
    """Return the template of `pod`, placed as `spec` and the pool `target` say."""
    own = selector(COMPONENT, name)
    # Generated input types read plain structures in the API's spelling as well, but say so in no
    # annotation.
    affinity = cast("core.AffinityArgsDict | None", spec.affinity.rendered() or None)
    # A preheat copies each revision into its own directory, whose name is in the pod. Nothing else
    # shows the revision of what a store has.
    direct = spec.weights.revision if spec.weights is not None and spec.preheat is None else None
    called = {
        **spec.annotations,
        **({} if direct is None else {MODEL_REVISION: direct}),
        **annotations,
    }
    metadata = meta.ObjectMetaArgsDict(
        labels={**spec.labels, **labels, **own}, annotations=called or None
    )
    spec_of_pod = core.PodSpecArgsDict(
        **pod,
        enable_service_links=False,
        runtime_class_name=target.runtime_class,
        node_selector=dict(target.node_selector),
        tolerations=tolerations(spec, target),
        priority_class_name=spec.priority_class_name,
        scheduler_name=spec.scheduler_name,
        image_pull_secrets=pull_secrets(spec),
        affinity=affinity,
        topology_spread_constraints=spread(own),
    )
    return core.PodTemplateSpecArgsDict(metadata=present(metadata), spec=present(spec_of_pod))


def tolerations(spec: PodSettings, target: NodeTarget) -> list[core.TolerationArgsDict]:
    """Return one toleration for each taint of the pool, by exact value, and those of the model."""
    written = (
        present(each.model_dump() | {"value": each.value or None}) for each in spec.tolerations
    )
    return [
        *tolerations_of(target.taints),
        *(cast("core.TolerationArgsDict", each) for each in written),
    ]


def pull_secrets(spec: PodSettings) -> list[core.LocalObjectReferenceArgsDict] | None:
    return [
        core.LocalObjectReferenceArgsDict(name=each.name) for each in spec.image_pull_secrets
    ] or None
