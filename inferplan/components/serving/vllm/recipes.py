"""Compiled graphs of vLLM on Gaudi that outlive their pod: a sidecar copies them to a folder of
their own on the preheat's store, and back.

The server itself works on a local disk and cannot write to the store, since locks do not work on
every share and the store also holds weights (vllm-gaudi
docs/configuration/warm-up/managing_warm-up.md, v0.26.0, "Storage Recommendations").
"""

from dataclasses import replace
from pathlib import Path

from inferplan.components.kubernetes import core
from inferplan.components.pod_parts import container_security, environment, no_device_variables
from inferplan.components.serving import server_container
from inferplan.components.serving.demand import SIDECAR
from inferplan.components.serving.vllm.payload.recipes import RESTORED
from inferplan.components.serving.vllm.spec import RECIPE_VARIABLE, VllmSpec
from inferplan.components.serving.volumes import CACHE, FILES_VOLUME, MODEL_VOLUME, read_only_mount
from inferplan.components.sources import ModelMount
from inferplan.images.catalogue import default_image

DIRECTORY = f"{CACHE}/recipes"
_MEGABYTES = 8192
# The variable that keeps compiled graphs: directory, whether to clear it first, maximum size in MB.
ENVIRONMENT = {RECIPE_VARIABLE: f"{DIRECTORY},False,{_MEGABYTES}"}
_KEPT, _PROGRAM = "/recipes", "/program"
_FILE = "recipes.py"
_SIDECAR_ENVIRONMENT = {"HOME": CACHE, "PYTHONDONTWRITEBYTECODE": "1"}


def with_recipes(
    server: server_container.Server, spec: VllmSpec, weights: ModelMount | None
) -> server_container.Server:
    """Return `server` with the sidecar, which may write to the model's folder of compiled graphs;
    unchanged if the store has no such folder.
    """
    if weights is None or weights.folder is None or spec.preheat is None:
        return server
    path = Path(__file__).with_name("payload") / _FILE
    user = spec.preheat.run_as_user
    return replace(
        server,
        init_containers=(
            *server.init_containers,
            _sidecar(spec.preheat.image, user, weights.folder),
        ),
        files={**server.files, _FILE: path.read_text(encoding="utf-8")},
        # The folder belongs to the preheat's user, and so does the group of a node's disk, which
        # Kubernetes would change otherwise.
        group=user,
    )


def _sidecar(image: str | None, user: int, folder: str) -> core.ContainerArgsDict:
    return core.ContainerArgsDict(
        name="recipes",
        image=image or default_image("preheat"),
        command=["python3", f"{_PROGRAM}/{_FILE}"],
        args=[_KEPT, DIRECTORY, str(_MEGABYTES)],
        working_dir="/",
        # An init container that always restarts runs next to the server, which starts after this
        # one's probe and ends before it.
        restart_policy="Always",
        startup_probe=core.ProbeArgsDict(
            exec_=core.ExecActionArgsDict(command=["test", "-f", f"{CACHE}/{RESTORED}"]),
            period_seconds=2,
            failure_threshold=900,
        ),
        env=environment({**no_device_variables(), **_SIDECAR_ENVIRONMENT}),
        resources=core.ResourceRequirementsArgsDict(
            requests=SIDECAR, limits={"memory": SIDECAR["memory"]}
        ),
        security_context={
            **container_security(read_only_root=True),
            "run_as_user": user,
            "run_as_group": user,
        },
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            core.VolumeMountArgsDict(name="cache", mount_path=CACHE),
            core.VolumeMountArgsDict(name="tmp", mount_path="/tmp"),  # noqa: S108 - a volume of the pod's own, not the node's directory
            read_only_mount(FILES_VOLUME, _PROGRAM),
            core.VolumeMountArgsDict(name=MODEL_VOLUME, mount_path=_KEPT, sub_path=folder),
        ],
    )
