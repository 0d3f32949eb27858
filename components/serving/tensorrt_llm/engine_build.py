"""The Job that builds a model's engines, before any of its servers starts and on cards of its pool, off the path of requests."""

from __future__ import annotations

import json

import pulumi
from pulumi_kubernetes.batch import v1 as batch
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.fields import present
from components.naming import bounded, labels
from components.preheat.pod import program
from components.preheat.preheat_job import REPEATED
from components.serving import placement, workload
from components.serving.model_service import key_of
from components.serving.tensorrt_llm.engines import TARGET, WEIGHTS, Engines
from components.serving.tensorrt_llm.models import payload

COMPONENT = "engine-build"
_HOME = "/opt/inferplan"
_SHARE = "share"
_RETRIES = 1
# Exit codes of the payload that mean: the same input fails the same way (2 bad request, 3 refused).
_FINAL_EXIT_CODES = [2, 3]
# Pulumi must wait longer than the Job may take: pulling images comes on top.
_PULL_SECONDS = 900


def engine_build(engines: Engines, *, opts: pulumi.ResourceOptions) -> batch.Job:
    """Declares the Job, which changes only with the engines, and its program; `opts` names their parent."""
    namespace = engines.site.namespace
    called = bounded(f"{engines.name}-engines", f"{engines.key}-r{engines.build.round}")
    metadata = meta.ObjectMetaArgsDict(name=called, namespace=namespace, labels=labels(COMPONENT, engines.name))
    # It holds cards, so it waits in the model's queue as its servers do.
    own = {**labels(COMPONENT, engines.name), **engines.site.queue_labels}
    queued = meta.ObjectMetaArgsDict(name=called, namespace=namespace, labels=own, annotations=REPEATED)
    code = core.ConfigMap(
        called,
        metadata=metadata,
        data={key_of(path): text for path, text in engine_program().items()},
        immutable=True,
        # A program of another release makes no other engines; build.round makes new ones, with the program of the day.
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(ignore_changes=["data"])),
    )
    timeout = f"{engines.build.timeout_seconds + _PULL_SECONDS}s"
    gates = [gate for gate in (code, engines.weights.gate, engines.site.queue) if gate is not None]
    waiting = pulumi.ResourceOptions(depends_on=gates, custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout))
    template = core.PodTemplateSpecArgsDict(
        metadata=meta.ObjectMetaArgsDict(labels=labels(COMPONENT, engines.name)), spec=_pod(engines, code=called)
    )
    return batch.Job(
        called,
        metadata=queued,
        spec=_job_spec(template, engines.build.timeout_seconds),
        opts=pulumi.ResourceOptions.merge(opts, waiting),
    )


def engine_program() -> dict[str, str]:
    """The source files that the Job runs, by path: the preheat's, and the one that builds."""
    shared = {f"components/preheat/payload/{name}": text for name, text in program().items()}
    return {**shared, "components/serving/tensorrt_llm/payload/engines.py": payload("engines.py")}


def _job_spec(template: core.PodTemplateSpecArgsDict, deadline: int) -> batch.JobSpecArgsDict:
    exits = batch.PodFailurePolicyOnExitCodesRequirementArgsDict(container_name="build", operator="In", values=_FINAL_EXIT_CODES)
    disrupted = batch.PodFailurePolicyOnPodConditionsPatternArgsDict(type="DisruptionTarget", status="True")
    return batch.JobSpecArgsDict(
        template=template,
        completions=1,
        parallelism=1,
        backoff_limit=_RETRIES,
        active_deadline_seconds=deadline,
        # A pod on its way out still writes; its successor would only wait for the lock.
        pod_replacement_policy="Failed",
        pod_failure_policy=batch.PodFailurePolicyArgsDict(
            rules=[
                batch.PodFailurePolicyRuleArgsDict(action="FailJob", on_exit_codes=exits),
                batch.PodFailurePolicyRuleArgsDict(action="Ignore", on_pod_conditions=[disrupted]),
            ]
        ),
    )


def _pod(engines: Engines, *, code: str) -> core.PodSpecArgsDict:
    target = engines.site.target
    claim = core.PersistentVolumeClaimVolumeSourceArgsDict(claim_name=engines.weights.claim.name)
    items = [core.KeyToPathArgsDict(key=key_of(path), path=path) for path in sorted(engine_program())]
    return present(
        core.PodSpecArgsDict(
            # Each try is a pod of its own, so that the logs of a failed one stay readable.
            restart_policy="Never",
            automount_service_account_token=False,
            enable_service_links=False,
            termination_grace_period_seconds=30,
            runtime_class_name=target.runtime_class,
            node_selector=dict(target.node_selector),
            tolerations=placement.tolerations(target),
            image_pull_secrets=placement.pull_secrets(engines.spec),
            # The share takes no ownership from Kubernetes: engines are written as the user who may write there.
            security_context=workload.pod_security(user=engines.preheat.run_as_user),
            containers=[_container(engines)],
            volumes=[
                *workload.scratch(workload.replica_scratch(engines.spec, engines.build.cards, target), target),
                core.VolumeArgsDict(name="program", config_map=core.ConfigMapVolumeSourceArgsDict(name=code, items=items)),
                core.VolumeArgsDict(name=_SHARE, persistent_volume_claim=claim),
            ],
        )
    )


def _container(engines: Engines) -> core.ContainerArgsDict:
    clear = {"ENGINE_REQUEST": json.dumps(engines.request, sort_keys=True), "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    own = core.EnvVarSourceArgsDict(field_ref=core.ObjectFieldSelectorArgsDict(field_path="metadata.name"))
    return core.ContainerArgsDict(
        name="build",
        image=engines.image,
        command=["python3", "-m", "components.serving.tensorrt_llm.payload.engines"],
        working_dir=_HOME,
        env=[
            *workload.environment(engines.spec, clear, {}, target=engines.site.target),
            core.EnvVarArgsDict(name="POD_NAME", value_from=own),
        ],
        resources=workload.resources_of(engines.spec, engines.build.cards, engines.site.target),
        # NVIDIA's container hook writes into the root file system when it adds the driver's libraries.
        security_context=workload.container_security(read_only_root=False),
        # The last lines of the log say why it failed, and `kubectl describe pod` then shows them.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            *workload.scratch_mounts(engines.site.target),
            core.VolumeMountArgsDict(name="program", mount_path=_HOME, read_only=True),
            core.VolumeMountArgsDict(name=_SHARE, mount_path=TARGET),
            core.VolumeMountArgsDict(name=_SHARE, mount_path=WEIGHTS, sub_path=engines.weights.sub_path, read_only=True),
        ],
    )
