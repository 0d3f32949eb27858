"""The engines of a model, identified by what decides their bytes, and the Job that builds them
before any of its servers starts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from inferplan.components.fields import present
from inferplan.components.kubernetes import batch, core, meta
from inferplan.components.naming import bounded, content_key, labels
from inferplan.components.pod_parts import container_security, pod_security, tolerations_of
from inferplan.components.preheat.pod import program
from inferplan.components.preheat.preheat_job import REPEATED, job_spec, job_timeouts
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.serving import server_container, workload
from inferplan.components.serving.demand import replica_scratch
from inferplan.components.serving.engine import Site
from inferplan.components.serving.tensorrt_llm.models import payload
from inferplan.components.serving.tensorrt_llm.spec import EngineBuild, TensorrtLlmSpec
from inferplan.components.serving.volumes import (
    config_map_volume,
    key_of,
    read_only_mount,
    scratch,
    scratch_mounts,
)
from inferplan.components.sources import ModelMount

COMPONENT = "engine-build"
WEIGHTS = "/weights"
TARGET = "/target"
# Directories of TensorRT-LLM's examples: 25.06 and 25.12 the first (public build logs), earlier
# images the last.
EXAMPLES = ("/app/examples/models/core", "/app/examples/models/contrib", "/app/examples")
_ROUNDS = 2
_HOME = "/opt/inferplan"
_SHARE = "share"
_RETRIES = 1


@dataclass(frozen=True, kw_only=True)
class Engines:
    """The engines of one model on one kind of accelerator, by one image."""

    name: str
    spec: TensorrtLlmSpec
    build: EngineBuild
    preheat: PreheatSpec
    site: Site = field(repr=False)
    weights: ModelMount
    image: str

    @property
    def key(self) -> str:
        """A name that changes with everything that the engines depend on."""
        accelerator = self.site.target.accelerator
        origin = self.weights.claim.origin or self.weights.claim.name
        options = json.dumps(
            [self.build.model_family, self.spec.world_size, *self.convert_args, *self.build_args]
        )
        device = "" if accelerator is None else f"{accelerator.name} {accelerator.resource}"
        return content_key(origin, self.weights.sub_path, device, self.image, options)

    @property
    def directory(self) -> str:
        """The directory of the engines on the share, by key and round, so that nothing is ever
        overwritten.
        """
        return f"engines/{self.spec.weights.path.rpartition('/')[2]}/{self.key}-r{self.build.round}"

    @property
    def convert_args(self) -> list[str]:
        """Options of convert_checkpoint.py, without its output directory."""
        return [
            f"--model_dir={WEIGHTS}",
            f"--dtype={self.spec.dtype}",
            f"--tp_size={self.spec.tensor_parallel_size}",
            f"--pp_size={self.spec.pipeline_parallel_size}",
            *self.build.convert_args,
        ]

    @property
    def build_args(self) -> list[str]:
        """Options of trtllm-build, without its input and output directories."""
        values = {
            "--workers": min(self.build.accelerators, self.spec.world_size),
            "--max_batch_size": self.spec.max_batch_size,
            "--max_seq_len": self.spec.max_seq_len,
            "--max_input_len": self.build.max_input_len,
            "--max_num_tokens": self.spec.max_num_tokens,
        }
        return [*option_list(values), *self.build.build_args]

    @property
    def request(self) -> dict[str, Any]:
        """The JSON document that the Job's program reads; it holds no credential."""
        return {
            "job": f"{self.name}-engines",
            "weights": WEIGHTS,
            "source": (
                f"{self.spec.weights.path} at {self.spec.weights.revision or 'no revision'} for"
                f" {self.image}"
            ),
            "target": TARGET,
            "directory": self.directory,
            "key": self.key,
            "keep": _ROUNDS,
            "ranks": self.spec.world_size,
            "family": self.build.model_family,
            "examples": list(EXAMPLES),
            "convert": self.convert_args,
            "build": self.build_args,
        }


def engines_of(name: str, spec: TensorrtLlmSpec, site: Site, image: str) -> Engines | None:
    """Return the engines of model `name` that a Job builds, None if it has none. Raises TypeError
    without a share that every node sees.
    """
    if spec.build is None:
        return None
    if (
        spec.preheat is None
        or not isinstance(site.weights, ModelMount)
        or site.weights.claim.nodes is not None
    ):
        raise TypeError(
            f"models.{name}.build: engines need a share that every node sees. Add preheat: {{into:"
            " <nfs store>}."
        )
    return Engines(
        name=name,
        spec=spec,
        build=spec.build,
        preheat=spec.preheat,
        site=site,
        weights=site.weights,
        image=image,
    )


def engine_build(engines: Engines, *, opts: pulumi.ResourceOptions) -> batch.Job:
    """Declare the Job, which changes only with the engines, and its program; `opts` names their
    parent.
    """
    called = bounded(f"{engines.name}-engines", f"{engines.key}-r{engines.build.round}")
    own = labels(COMPONENT, engines.name)
    metadata = meta.ObjectMetaArgsDict(name=called, namespace=engines.site.namespace, labels=own)
    code = core.ConfigMap(
        called,
        metadata=metadata,
        data={key_of(path): text for path, text in engine_program().items()},
        immutable=True,
        # A program of another release makes the same engines; a higher build.round makes new ones,
        # with the current program.
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(ignore_changes=["data"])),
    )
    deadline = engines.build.timeout_seconds
    gates = [gate for gate in (code, engines.weights.gate, engines.site.queue) if gate is not None]
    waiting = pulumi.ResourceOptions(depends_on=gates, custom_timeouts=job_timeouts(deadline))
    template = core.PodTemplateSpecArgsDict(
        metadata=meta.ObjectMetaArgsDict(labels=own), spec=_pod(engines, code=called)
    )
    return batch.Job(
        called,
        # It uses accelerators, so it waits in the model's queue like the servers.
        metadata={
            **metadata,
            "labels": {**own, **engines.site.queue_labels},
            "annotations": REPEATED,
        },
        spec=job_spec("build", template, deadline, retries=_RETRIES),
        opts=pulumi.ResourceOptions.merge(opts, waiting),
    )


def engine_program() -> dict[str, str]:
    """Return the source files that the Job runs, by path: those of the preheat, and the one that
    builds.
    """
    shared = {f"components/preheat/payload/{name}": text for name, text in program().items()}
    return {**shared, "components/serving/tensorrt_llm/payload/engines.py": payload("engines.py")}


def _pod(engines: Engines, *, code: str) -> core.PodSpecArgsDict:
    target = engines.site.target
    claim = core.PersistentVolumeClaimVolumeSourceArgsDict(claim_name=engines.weights.claim.name)
    return present(
        core.PodSpecArgsDict(
            # Each attempt gets a new pod, so the logs of a failed attempt stay readable.
            restart_policy="Never",
            automount_service_account_token=False,
            enable_service_links=False,
            termination_grace_period_seconds=30,
            runtime_class_name=target.runtime_class,
            node_selector=dict(target.node_selector),
            tolerations=tolerations_of(target.taints),
            image_pull_secrets=workload.pull_secrets(engines.spec),
            # Kubernetes cannot change the owner of the share: the user who may write there writes
            # the engines.
            security_context=pod_security(user=engines.preheat.run_as_user),
            containers=[_container(engines)],
            volumes=[
                *scratch(replica_scratch(engines.spec, engines.build.accelerators, target), target),
                config_map_volume("program", code, [*engine_program()]),
                core.VolumeArgsDict(name=_SHARE, persistent_volume_claim=claim),
            ],
        )
    )


def _container(engines: Engines) -> core.ContainerArgsDict:
    plain = {
        "ENGINE_REQUEST": json.dumps(engines.request, sort_keys=True),
        "HF_HUB_OFFLINE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    own = core.EnvVarSourceArgsDict(
        field_ref=core.ObjectFieldSelectorArgsDict(field_path="metadata.name")
    )
    return core.ContainerArgsDict(
        name="build",
        image=engines.image,
        command=["python3", "-m", "components.serving.tensorrt_llm.payload.engines"],
        working_dir=_HOME,
        env=[
            *server_container.environment(engines.spec, plain, {}, target=engines.site.target),
            core.EnvVarArgsDict(name="POD_NAME", value_from=own),
        ],
        resources=server_container.resources_of(
            engines.spec, engines.build.accelerators, engines.site.target
        ),
        # NVIDIA's container hook writes into the root file system when it adds the driver's
        # libraries.
        security_context=container_security(read_only_root=False),
        # The last lines of the log say why it failed, and `kubectl describe pod` then shows them.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            *scratch_mounts(engines.spec, engines.site.target),
            read_only_mount("program", _HOME),
            core.VolumeMountArgsDict(name=_SHARE, mount_path=TARGET),
            read_only_mount(_SHARE, WEIGHTS, engines.weights.sub_path),
        ],
    )


def option_list(values: Mapping[str, object]) -> list[str]:
    """Return `values` as options of a command line, without those that are None."""
    return [f"{option}={value}" for option, value in values.items() if value is not None]
