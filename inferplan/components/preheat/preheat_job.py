"""The Job that copies a model to a share, or to the disk of each node, and verifies it; and the
mount for the model's servers.
"""

from collections.abc import Mapping
from functools import cache

import pulumi

from inferplan.components.fields import present
from inferplan.components.kubernetes import batch, core, meta, networking
from inferplan.components.metrics_ports import METRICS_PATH, METRICS_PORT
from inferplan.components.monitoring.observed import scrape_annotations
from inferplan.components.monitoring.spec import MonitoringSpec
from inferplan.components.naming import bounded, labels, selector
from inferplan.components.network import policy, store_edges
from inferplan.components.preheat.pod import TARGET, pod_spec, program, reporter_program
from inferplan.components.preheat.request import (
    code_key,
    deadline_seconds,
    job_key,
    request_of,
)
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.sources import ModelMount, ModelSource, VolumeClaim, WorkloadIdentity
from inferplan.components.stores import WeightsSpec

COMPONENT = "preheat"
PROGRAM = "preheat-program"
_RETRIES = 4
# The next update replaces a Job that did not succeed, and the new one resumes from the staged
# files.
REPEATED = {"pulumi.com/replaceUnready": "true"}
# Exit codes of the payload for "the same input fails the same way": 2 bad request, 3 rejected.
_FINAL_EXIT_CODES = [2, 3]
# Pulumi must wait longer than the Job, by the time to pull images.
_PULL_SECONDS = 900


class PreheatJob(pulumi.ComponentResource):
    """Copies the files of `weights` to `target`, or to each of its nodes, verified; servers use
    `mount`, whose gate is the Job.

    `folder` is a directory of `target` that the Job makes for the model's pods to write to. The
    Job's name, in Kubernetes and in its URN, has a key of what it copies and how: a changed source,
    revision, round or payload creates a new Job before the old one is deleted. A finished Job stays
    for `ttlSecondsAfterFinished`. If it is gone at a refresh, Pulumi creates it again, and it
    copies nothing.

    `program` is the ConfigMap that all Jobs of a namespace share (`preheat_program`); without it,
    the Job has its own.
    """

    mount: ModelMount

    def __init__(  # noqa: PLR0913 - each is one part of the component's spec or a handle
        self,
        name: str,
        weights: WeightsSpec,
        preheat: PreheatSpec,
        *,
        source: ModelSource,
        target: VolumeClaim,
        namespace: pulumi.Input[str],
        folder: str | None = None,
        monitoring: MonitoringSpec | None = None,
        program: pulumi.Resource | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        intent = {"weights": weights.intent(), "preheat": preheat.intent()}
        super().__init__("inferplan:preheat:PreheatJob", name, intent, opts)
        child = pulumi.ResourceOptions(parent=self)
        request = request_of(name, weights, preheat, source=source, target=TARGET)
        deadline = deadline_seconds(weights, preheat)
        reported = _is_reported(monitoring)
        stem = f"{name}-preheat" if program is None else PROGRAM
        code_name = bounded(stem, _program(reported=reported)[1])
        code = program or _code(code_name, name, namespace, reported=reported, opts=child)
        pod_labels = selector(COMPONENT, name)
        pod = pod_spec(
            preheat,
            request,
            source=source,
            target=target,
            code=code_name,
            labels=pod_labels,
            folder=folder,
            reported=reported,
        )
        job_name = bounded(f"{name}-preheat", job_key(pod, target))
        gates = [*target.gates, *(source.gates if source.claim is not None else ())]
        # The node mounts a volume outside the pod's network.
        if source.url is not None:
            edges = policy(pod_labels, egress=store_edges(source))
            gates.append(_egress(name, edges, namespace, child))
        if source.identity is not None:
            # Pods get the credentials of their service account at admission.
            pod["service_account_name"] = _service_account(name, source.identity, namespace, child)
            gates.append(source.identity.ready)
        job = batch.Job(
            job_name,
            metadata=meta.ObjectMetaArgsDict(
                name=job_name,
                namespace=namespace,
                labels=labels(COMPONENT, name),
                annotations=REPEATED,
            ),
            spec=job_spec(
                COMPONENT,
                core.PodTemplateSpecArgsDict(
                    metadata=_pod_metadata(name, monitoring, reported=reported), spec=pod
                ),
                deadline,
                retries=_RETRIES,
                ttl=preheat.ttl_seconds_after_finished,
                nodes=None if target.nodes is None else target.nodes.nodes,
            ),
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[code, *gates], custom_timeouts=job_timeouts(deadline)
            ),
        )
        self.mount = ModelMount(
            claim=target, sub_path=request["directory"], gate=job, marked=True, folder=folder
        )
        self.register_outputs({"directory": self.mount.sub_path})


def _pod_metadata(
    name: str, monitoring: MonitoringSpec | None, *, reported: bool
) -> meta.ObjectMetaArgsDict:
    scraped = scrape_annotations(monitoring, METRICS_PORT, METRICS_PATH) if reported else {}
    return present(
        meta.ObjectMetaArgsDict(labels=labels(COMPONENT, name), annotations=dict(scraped) or None)
    )


def _egress(
    name: str,
    edges: networking.NetworkPolicySpecArgsDict,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> pulumi.Resource:
    metadata = meta.ObjectMetaArgsDict(
        name=bounded(name, "preheat"), namespace=namespace, labels=labels(COMPONENT, name)
    )
    return networking.NetworkPolicy(f"{name}-egress", metadata=metadata, spec=edges, opts=opts)


def preheat_program(
    namespace: pulumi.Input[str],
    monitoring: MonitoringSpec | None,
    *,
    opts: pulumi.ResourceOptions | None = None,
) -> pulumi.Resource:
    """Declare the ConfigMap with the program of all preheats of a namespace. A new program has
    another name, so the old one stays until the Jobs that read it are gone.
    """
    reported = _is_reported(monitoring)
    name = bounded(PROGRAM, _program(reported=reported)[1])
    return _code(name, PROGRAM, namespace, reported=reported, opts=opts)


def _code(
    name: str,
    instance: str,
    namespace: pulumi.Input[str],
    *,
    reported: bool,
    opts: pulumi.ResourceOptions | None,
) -> pulumi.Resource:
    # The name has a key of the instructions: a new wording of docstrings changes nothing.
    unchanged = pulumi.ResourceOptions(ignore_changes=["data"])
    return core.ConfigMap(
        name,
        metadata=meta.ObjectMetaArgsDict(
            name=name, namespace=namespace, labels=labels(COMPONENT, instance)
        ),
        data=_program(reported=reported)[0],
        immutable=True,
        opts=pulumi.ResourceOptions.merge(opts, unchanged),
    )


def _is_reported(monitoring: MonitoringSpec | None) -> bool:
    return monitoring is not None and monitoring.scrape is not None and monitoring.scrape.preheats


@cache
def _program(*, reported: bool) -> tuple[Mapping[str, str], str]:
    """The source files of the Job's pods by name, and their key."""
    files = {**program(), **reporter_program()} if reported else program()
    return files, code_key(files)


def job_timeouts(deadline: int) -> pulumi.CustomTimeouts:
    return pulumi.CustomTimeouts(
        create=f"{deadline + _PULL_SECONDS}s", update=f"{deadline + _PULL_SECONDS}s"
    )


def job_spec(
    container: str,
    template: core.PodTemplateSpecArgsDict,
    deadline: int,
    *,
    retries: int,
    ttl: int | None = None,
    nodes: int | None = None,
) -> batch.JobSpecArgsDict:
    """One pod with the payload in `container`, or one for each of `nodes`; errors that a retry
    repeats end the Job.
    """
    exits = batch.PodFailurePolicyOnExitCodesRequirementArgsDict(
        container_name=container, operator="In", values=_FINAL_EXIT_CODES
    )
    disrupted = batch.PodFailurePolicyOnPodConditionsPatternArgsDict(
        type="DisruptionTarget", status="True"
    )
    return present(
        batch.JobSpecArgsDict(
            template=template,
            completion_mode=None if nodes is None else "Indexed",
            completions=nodes or 1,
            parallelism=nodes or 1,
            backoff_limit=retries + (nodes or 1) - 1,
            active_deadline_seconds=deadline,
            ttl_seconds_after_finished=ttl,
            # A terminating pod still writes; its successor would only wait for the lock.
            pod_replacement_policy="Failed",
            pod_failure_policy=batch.PodFailurePolicyArgsDict(
                rules=[
                    batch.PodFailurePolicyRuleArgsDict(action="FailJob", on_exit_codes=exits),
                    batch.PodFailurePolicyRuleArgsDict(
                        action="Ignore", on_pod_conditions=[disrupted]
                    ),
                ]
            ),
        )
    )


def _service_account(
    name: str,
    identity: WorkloadIdentity,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    account = core.ServiceAccount(
        f"{name}-reader",
        metadata=present(
            meta.ObjectMetaArgsDict(
                name=identity.service_account,
                namespace=namespace,
                labels=labels(COMPONENT, name),
                annotations=dict(identity.annotations) or None,
            )
        ),
        automount_service_account_token=False,
        opts=opts,
    )
    return account.metadata["name"]
