"""Init containers that let a server start only when its files are complete.

They run in the small image of the preheat, with no device and a read-only root: in an engine's image they would claim accelerators.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulumi_kubernetes.core import v1 as core

from components.devices import no_devices
from components.preheat.spec import PreheatSpec
from components.serving import workload
from images.catalogue import default_image


def gate(name: str, command: Sequence[str], mount: core.VolumeMountArgs, preheat: PreheatSpec | None) -> core.ContainerArgs:
    """The init container `name` that runs `command` and sees `mount` alone; a failing command keeps the server from starting."""
    return core.ContainerArgs(
        name=name,
        image=(preheat.image if preheat is not None else None) or default_image("preheat"),
        command=list(command),
        working_dir="/",
        env=no_devices(),
        resources=core.ResourceRequirementsArgs(requests={"cpu": "10m", "memory": "32Mi"}, limits={"memory": "32Mi"}),
        security_context=workload.container_security(read_only_root=True),
        # The message appears in the pod's status, which people read first, and not in the log of a container that is gone.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[mount],
    )
