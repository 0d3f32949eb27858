"""The pods of a Ray cluster: a head without accelerators, workers with them. KubeRay adds Ray's
command and its probes.
"""

from collections.abc import Mapping

import pulumi

from inferplan.components.fields import present
from inferplan.components.kubernetes import core
from inferplan.components.pod_parts import container_security, no_device_variables, pod_security
from inferplan.components.serving import server_container, workload
from inferplan.components.serving.demand import Scratch, replica_scratch, scratch_of
from inferplan.components.serving.engine import Site
from inferplan.components.serving.hardware import vendor_of
from inferplan.components.serving.ray_serve.spec import RayServeSpec
from inferplan.components.serving.vllm.engine_args import VLLM_ENVIRONMENT
from inferplan.components.serving.volumes import (
    MODELS,
    artifact_gates,
    artifact_mounts,
    extra_mounts,
    extra_volumes,
    model_mounts,
    model_volumes,
    scratch,
    scratch_mounts,
    weights_gate,
)
from inferplan.components.sources import ModelMount
from inferplan.images.catalogue import catalogue, family_of
from inferplan.kube.quantity import canonical

# The head is not part of the models' share of a node: it uses the rest of the node.
_HEAD_SHARE = 0.05
# Without a port called serve on the head, which serves no requests here, KubeRay makes no serve
# service (seen with v1.7.0).
_HEAD_PORTS = {
    "gcs-server": 6379,
    "dashboard": 8265,
    "client": 10001,
    "metrics": 8080,
    "serve": 8000,
}
_WORKER_PORTS = {"serve": 8000, "metrics": 8080}
# The user `ray` of Ray's images, whose Python and home only it may read.
RAY_USER = 1000


def head_pod(
    name: str,
    spec: RayServeSpec,
    site: Site,
    weights: ModelMount | None,
    service_account: pulumi.Input[str],
) -> core.PodTemplateSpecArgsDict:
    """Return the template of the head: no accelerator, but the model's files.

    Serve runs an application's builder as a task that requests no CPU (ray 2.60,
    serve/_private/application_state.py), and such a task may run on the head regardless of
    `num-cpus`.
    """
    memory = canonical(spec.head.memory)
    sizes = scratch_of(spec, site.target, memory=memory, share=_HEAD_SHARE)
    resources = core.ResourceRequirementsArgsDict(
        requests={
            "cpu": canonical(spec.head.cpu),
            "memory": memory,
            **sizes.request(_HEAD_SHARE, site.target),
        },
        limits={"memory": memory},
    )
    # An image for GPUs claims all of them: without these variables the head would see, and offer, those
    # of other pods. Ray writes below its home and /tmp/ray only, which are volumes (Ray 2.60
    # started with a read-only root, 2026-11).
    container = _container(
        "ray-head",
        name,
        spec,
        site,
        weights,
        ports=_HEAD_PORTS,
        env=no_device_variables(),
        read_only_root=True,
    )
    container["resources"] = resources
    # The autoscaler runs in the head's pod with the account that KubeRay makes for it.
    account = service_account if spec.worker_autoscaling is None else None
    return _template(name, spec, site, weights, container, sizes, account)


def worker_pod(
    name: str,
    spec: RayServeSpec,
    site: Site,
    weights: ModelMount | None,
    service_account: pulumi.Input[str],
) -> core.PodTemplateSpecArgsDict:
    vendor = vendor_of(site.target)
    read_only_root = vendor is None or not vendor.writes_root
    container = _container(
        "ray-worker",
        name,
        spec,
        site,
        weights,
        ports=_WORKER_PORTS,
        env={},
        read_only_root=read_only_root,
    )
    container["resources"] = server_container.resources_of(
        spec, spec.accelerators_per_pod, site.target
    )
    container["lifecycle"] = server_container.PRE_STOP
    sizes = replica_scratch(spec, spec.accelerators_per_pod, site.target)
    return _template(name, spec, site, weights, container, sizes, service_account)


def _container(
    role: str,
    name: str,
    spec: RayServeSpec,
    site: Site,
    weights: ModelMount | None,
    *,
    ports: Mapping[str, int],
    env: Mapping[str, str],
    read_only_root: bool,
) -> core.ContainerArgsDict:
    # The working directory of Ray's own images; the code of a user's image is imported from the
    # directory of that image.
    is_catalogued = spec.image is not None and family_of(spec.image) is catalogue()["ray"]
    mounts = [
        *model_mounts(f"{MODELS}/{name}", weights),
        *artifact_mounts(site.artifacts),
        *extra_mounts(spec),
    ]
    return present(
        core.ContainerArgsDict(
            name=role,
            image=server_container.image_of(spec, site.target),
            working_dir=catalogue()["ray"].workdir if is_catalogued else None,
            # The gateway sends this key to Serve, which does not check it; an application of the
            # user's own may.
            env=server_container.environment(
                spec,
                {**VLLM_ENVIRONMENT, **env},
                {"SERVER_KEY": site.server_key},
                target=site.target,
            ),
            ports=server_container.container_ports(ports),
            security_context=container_security(read_only_root=read_only_root),
            termination_message_policy="FallbackToLogsOnError",
            volume_mounts=[*scratch_mounts(spec, site.target), *mounts],
        )
    )


def _template(
    name: str,
    spec: RayServeSpec,
    site: Site,
    weights: ModelMount | None,
    container: core.ContainerArgsDict,
    sizes: Scratch,
    account: pulumi.Input[str] | None,
) -> core.PodTemplateSpecArgsDict:
    """Return the template of a pod with `container`; KubeRay sets the account if `account` is None."""
    files = model_mounts(f"{MODELS}/{name}", weights)
    gates = [
        *weights_gate(weights, files, spec.preheat),
        *artifact_gates(site.artifacts, spec.preheat),
    ]
    pod = core.PodSpecArgsDict(
        service_account_name=account,
        automount_service_account_token=None if account is None else False,
        termination_grace_period_seconds=workload.budget(spec, site.target).grace,
        security_context=pod_security(user=RAY_USER),
        init_containers=gates or None,
        containers=[container],
        volumes=[*scratch(sizes, site.target), *model_volumes(weights), *extra_volumes(spec)],
    )
    return workload.placed(name, spec, site.target, pod, labels={}, annotations={})
