"""A real server of one model on this computer: the CPU build of its engine, with the arguments that
the plan gives its pods.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferplan.components.gateway import keys
from inferplan.components.serving.model_parts import CpuBuild
from inferplan.documents.errors import unknown
from inferplan.errors import RequestError
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from inferplan.kube.paths import mapping
from inferplan.kube.pod_sets import templates_of
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.components import SERVER
from inferplan.rehearsal.serving.programs import Program, answer_of, folder_of
from inferplan.workspace.workspace import Workspace

_START_SECONDS = 900.0
_FILES = ("config.json", "*.safetensors")
_LINK = "model"


@dataclass(frozen=True, kw_only=True)
class RealServer:
    """The `model` that a real server answers for, its `directory` of files, and the `program` of
    the `build` for CPUs.
    """

    model: str
    directory: Path
    program: str
    build: CpuBuild


def directories_of_models(workspace: Workspace, options: Iterable[str]) -> dict[str, Path]:
    """The directory of each model that `--real MODEL=DIR` names. Raises RequestError."""
    errors, directories = [], {}
    for option in options:
        model, _, path = option.partition("=")
        spec, directory = workspace.settings.models.get(model), Path(path).expanduser().absolute()
        if spec is None:
            errors.append(unknown("model", model, workspace.settings.models, owner=workspace.stack))
            continue
        if spec.cpu_build is None:
            errors.append(
                f"{spec.engine} has no build for CPUs, so no real server of {model} runs here."
                " Leave --real out: a stub answers"
            )
            continue
        missing = [name for name in _FILES if not any(directory.glob(name))]
        if not path or missing:
            errors.append(
                f"{directory} has no {' and no '.join(missing)}. Name a directory with the files of"
                f" a model: {model}=DIR"
            )
        directories[model] = directory
    if errors:
        raise RequestError("; ".join(f"--real: {each}" for each in errors))
    return directories


def real_server(workspace: Workspace, options: Iterable[str]) -> RealServer | None:
    """The real server that `--real MODEL=DIR` asks for. Raises RequestError, before anything
    starts, if it cannot run.
    """
    errors, servers = [], []
    for model, directory in directories_of_models(workspace, options).items():
        spec = workspace.settings.models[model]
        if spec.cpu_build is None:
            continue
        program = os.environ.get("INFERPLAN_CPU_SERVER") or shutil.which(spec.cpu_build.program)
        if program is None or not os.access(program, os.X_OK):
            errors.append(
                f"{program or spec.cpu_build.program} is not a program on this computer. Install"
                f" the CPU build of {spec.engine} in an environment of its own (inferplan docs rehearsal),"
                " and put it on PATH or name it in INFERPLAN_CPU_SERVER"
            )
        servers.append(
            RealServer(
                model=model, directory=directory, program=program or "", build=spec.cpu_build
            )
        )
    if len(servers) > 1:
        errors.append("a rehearsal runs one real server at a time. Name one model")
    if errors:
        raise RequestError("; ".join(f"--real: {each}" for each in errors))
    return next(iter(servers), None)


def arguments_of(server: RealServer, recording: Recording) -> tuple[list[str], list[str]]:
    """The arguments of the server after the model, and the options among those of its pods that its
    build lacks.
    """
    kept, dropped, name = [], [], ""
    for word in container_of(server.model, recording)["args"][1:]:
        # A word without dashes is the value of the option before it.
        is_option = word.startswith("--")
        name = word.partition("=")[0] if is_option else name
        if name in server.build.lacks:
            dropped += [name] if is_option else []
        elif name not in ("--port", "--api-key"):
            kept.append(word)
    return kept, dropped


def container_of(model: str, recording: Recording) -> Mapping[str, Any]:
    """The container of the servers of `model`, that of the workers in a group. Raises RequestError
    if the plan has none.
    """
    containers = [
        template["spec"]["containers"][0]
        for each in recording
        for template in templates_of(each.type, reveal(each.inputs))
        if is_of_model(model, template)
    ]
    if not containers:
        raise RequestError(f"the plan has no server of {model}")
    return containers[-1]


def is_of_model(model: str, manifest: Mapping[str, Any]) -> bool:
    """True for objects and pods of the servers of `model`."""
    labels = mapping(manifest, "metadata", "labels")
    return (labels.get(COMPONENT_LABEL), labels.get(INSTANCE_LABEL)) == ("model", model)


def program(
    server: RealServer, recording: Recording, cluster: Cluster, *, port: int, seed: str
) -> Program:
    """The server on loopback. It starts again when its arguments, its files or its key change."""
    container, folder = container_of(server.model, recording), folder_of(cluster.directory)
    link = folder / _LINK
    # Paths and addresses of the pod mean nothing here.
    plain = {
        each["name"]: each["value"]
        for each in container["env"]
        if "/" not in each.get("value", "/")
    }
    secret = {
        each["name"]: keys.server_key(seed, server.model)
        for each in container["env"]
        if "valueFrom" in each
    }

    def prepare() -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(server.directory)

    return Program(
        component=SERVER,
        # The link is in the directory of the cluster, by which its processes are found.
        command=[
            server.program,
            "serve",
            str(link),
            *arguments_of(server, recording)[0],
            "--host=127.0.0.1",
            f"--port={port}",
        ],
        files={"server.txt": str(server.directory).encode()},
        environment={**server.build.environment, **plain, **secret},
        prepare=prepare,
        ready=lambda: answer_of(f"http://127.0.0.1:{port}/health") is not None,
        reloads=False,
        ready_seconds=_START_SECONDS,
    )
