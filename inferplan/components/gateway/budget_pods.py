"""The part of the gateway's pods that counts the tokens of consumers with a budget."""

import json
from collections.abc import Mapping

import pulumi

from inferplan.components.gateway.consumer_spec import BUDGETS_SERVICE
from inferplan.components.gateway.proxy import ProxyLayout
from inferplan.components.kubernetes import core, meta
from inferplan.components.pod_parts import container_security, environment
from inferplan.images.catalogue import default_image
from inferplan.kube.names import EPHEMERAL_STORAGE

PORT = 8090
SERVICE = f"{BUDGETS_SERVICE}:{PORT}"
PROGRAM = "budgets.py"
FOLDER = ProxyLayout.budgets
_SCRATCH = "/tmp"  # noqa: S108 - a volume of the pod's own, not the node's directory


def container(budgets: Mapping[str, int], config: str) -> core.ContainerArgsDict:
    """Return the container, with the mounted `config` of the gateway and its volumes `tmp` and
    `budgets`.
    """
    probe = core.HTTPGetActionArgsDict(path="/healthz", port="budgets")
    variables = {
        "BUDGETS": json.dumps(budgets, sort_keys=True),
        "FOLDER": FOLDER,
        "SERVICE": SERVICE,
        "LISTEN": f"0.0.0.0:{PORT}",
        "HOME": _SCRATCH,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return core.ContainerArgsDict(
        name="budgets",
        image=default_image("preheat"),
        working_dir="/",
        command=["python3", f"{config}/{PROGRAM}"],
        env=environment(variables),
        ports=[core.ContainerPortArgsDict(name="budgets", container_port=PORT)],
        resources=core.ResourceRequirementsArgsDict(
            requests={"cpu": "20m", "memory": "64Mi", EPHEMERAL_STORAGE: "16Mi"},
            limits={"memory": "256Mi", EPHEMERAL_STORAGE: "64Mi"},
        ),
        startup_probe=core.ProbeArgsDict(
            http_get=probe, period_seconds=1, failure_threshold=60, timeout_seconds=2
        ),
        readiness_probe=core.ProbeArgsDict(
            http_get=probe, period_seconds=5, failure_threshold=6, timeout_seconds=5
        ),
        liveness_probe=core.ProbeArgsDict(
            http_get=probe, period_seconds=10, failure_threshold=6, timeout_seconds=5
        ),
        security_context=container_security(),
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            core.VolumeMountArgsDict(name="config", mount_path=config, read_only=True),
            core.VolumeMountArgsDict(name="budgets", mount_path=FOLDER),
            core.VolumeMountArgsDict(name="tmp", mount_path=_SCRATCH),
        ],
    )


def volume() -> core.VolumeArgsDict:
    marks = core.EmptyDirVolumeSourceArgsDict(size_limit="8Mi")
    return core.VolumeArgsDict(name="budgets", empty_dir=marks)


def declare_service(
    metadata: meta.ObjectMetaArgsDict, chosen: Mapping[str, str], opts: pulumi.ResourceOptions
) -> None:
    """Declare a Service whose name has the addresses of all pods, also of those that start."""
    port = core.ServicePortArgsDict(
        name="budgets", port=PORT, target_port="budgets", protocol="TCP", app_protocol="http"
    )
    spec = core.ServiceSpecArgsDict(
        type="ClusterIP",
        cluster_ip="None",
        publish_not_ready_addresses=True,
        selector=dict(chosen),
        ports=[port],
    )
    core.Service(BUDGETS_SERVICE, metadata=metadata, spec=spec, opts=opts)
