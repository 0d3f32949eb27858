"""The Job that compares models: it calls them through the gateway with a consumer's key and prints
a table to its log.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pulumi

from inferplan.components.benchmark.spec import BenchmarkSpec
from inferplan.components.fields import present
from inferplan.components.gateway.routes import path_of, public_path
from inferplan.components.handles import Endpoint, SecretRef
from inferplan.components.kubernetes import batch, core, meta, networking
from inferplan.components.naming import bounded, content_key, labels, selector
from inferplan.components.network import pods, policy, tcp
from inferplan.components.pod_parts import (
    claim_volume,
    container_security,
    environment,
    no_device_variables,
    pod_security,
)
from inferplan.components.sources import ModelMount, ModelSource

COMPONENT = "benchmark"
GATEWAY_PORT = 8080
TOKENIZER = "/tokenizer"
_HOME, _ARTIFACTS, _SCRATCH = (
    "/opt/inferplan",
    "/artifacts",
    "/tmp",  # noqa: S108 - volumes of the pod's own
)


@dataclass(frozen=True, kw_only=True)
class BenchmarkInputs:
    """Inputs from other components: the tokenizer's files, a consumer's key, the labels of the
    gateway's pods.
    """

    tokenizer: ModelMount | ModelSource | None
    key: SecretRef
    gateway: Mapping[str, str]
    namespace: pulumi.Input[str]
    path_prefix: str = ""


class BenchmarkJob(pulumi.ComponentResource):
    """One benchmark. The Job's name depends on its settings, so a change creates a new Job and an
    unchanged stack does not.
    """

    def __init__(
        self,
        name: str,
        spec: BenchmarkSpec,
        inputs: BenchmarkInputs,
        *,
        endpoints: Sequence[Endpoint],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:benchmark:BenchmarkJob", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        namespace, tokenizer = inputs.namespace, inputs.tokenizer
        if not isinstance(tokenizer, ModelMount):
            raise TypeError(
                f"benchmark.tokenizer: the files of {spec.tokenizer} are not in a claim. Use a"
                " model with preheat."
            )
        program = (files("inferplan.components.benchmark") / "payload" / "compare.py").read_text(
            encoding="utf-8"
        )
        plan = json.dumps(
            plan_of(spec, {each.model: each for each in endpoints}, path_prefix=inputs.path_prefix),
            sort_keys=True,
        )
        program_name = bounded(name, content_key(program))
        metadata = _meta(program_name, name, namespace)
        code = core.ConfigMap(
            program_name,
            metadata=metadata,
            data={"compare.py": program},
            immutable=True,
            opts=child,
        )
        egress = networking.NetworkPolicyEgressRuleArgsDict(
            to=[pods(inputs.gateway)], ports=tcp(GATEWAY_PORT)
        )
        allowed = policy(selector(COMPONENT, name), egress=[egress])
        edge = networking.NetworkPolicy(
            name, metadata=_meta(name, name, namespace), spec=allowed, opts=child
        )
        job_name = bounded(
            name,
            content_key(
                plan, program, spec.model_dump_json(), tokenizer.claim.name, tokenizer.sub_path
            ),
        )
        job = batch.JobSpecArgsDict(
            template=core.PodTemplateSpecArgsDict(
                metadata=meta.ObjectMetaArgsDict(labels=labels(COMPONENT, name)),
                spec=_pod(spec, plan, tokenizer, inputs.key, code.metadata["name"]),
            ),
            # A retry would repeat the load with the same result.
            backoff_limit=0,
            active_deadline_seconds=spec.deadline_seconds,
        )
        # The benchmark can take hours; an update must not wait for it.
        metadata = _meta(job_name, name, namespace, {"pulumi.com/skipAwait": "true"})
        gates = [tokenizer.gate] if tokenizer.gate is not None else []
        batch.Job(
            job_name,
            metadata=metadata,
            spec=job,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[edge, *gates]),
        )
        self.register_outputs({"job": job_name})


def plan_of(
    spec: BenchmarkSpec, endpoints: Mapping[str, Endpoint], *, path_prefix: str = ""
) -> dict[str, Any]:
    """Return the input of the payload: one entry per model, and the load for all of them."""
    return {
        "program": "aiperf",
        "services": [
            _service(name, endpoints, f"http://gateway{path_prefix}") for name in spec.models
        ],
        "tokenizer": TOKENIZER,
        "promptTokens": spec.prompt_tokens,
        "outputTokens": spec.output_tokens,
        "concurrency": spec.concurrency,
        "requests": spec.requests,
        "waitSeconds": spec.wait_seconds,
    }


def _service(name: str, endpoints: Mapping[str, Endpoint], base: str) -> dict[str, Any]:
    model, _, served = name.partition("/")
    endpoint = endpoints[model]
    if any(each.kind == "openai" for each in endpoint.protocols):
        # aiperf adds /v1/chat/completions itself.
        url = base + path_of(endpoint, "openai").removesuffix("/v1")
        probe = f"{url}/v1/chat/completions"
        return {
            "model": name,
            "served": served or endpoint.served_names[0],
            "protocol": "openai",
            "url": url,
            "probe": probe,
        }
    text = next(each for each in endpoint.texts if served in ("", each.model))
    path = f"{public_path(endpoint.model, 'triton-generate')}/models/{text.model}/generate_stream"
    streaming = "" if text.stream is None else f', "{text.stream}": true'
    template = (
        f'{{"{text.input}": {{{{ text|tojson }}}}, "max_tokens": {{{{ max_tokens|tojson'
        f" }}}}{streaming}}}"
    )
    generate = {"path": path, "template": template, "output": text.output}
    return {
        "model": name,
        "served": text.model,
        "protocol": "triton-generate",
        "url": base,
        "probe": base + path,
        **generate,
    }


def _meta(
    object_name: str,
    name: str,
    namespace: pulumi.Input[str],
    annotations: Mapping[str, str] | None = None,
) -> meta.ObjectMetaArgsDict:
    return present(
        meta.ObjectMetaArgsDict(
            name=object_name,
            namespace=namespace,
            labels=labels(COMPONENT, name),
            annotations=annotations,
        )
    )


def _pod(
    spec: BenchmarkSpec, plan: str, tokenizer: ModelMount, key: SecretRef, code: pulumi.Input[str]
) -> core.PodSpecArgsDict:
    secret = core.EnvVarSourceArgsDict(
        secret_key_ref=core.SecretKeySelectorArgsDict(name=key.name, key=key.key)
    )
    clear = {
        "BENCHMARK": plan,
        "ARTIFACTS": _ARTIFACTS,
        "HOME": _SCRATCH,
        "PYTHONDONTWRITEBYTECODE": "1",
        **no_device_variables(),
    }
    amounts = {"cpu": spec.cpu, "memory": spec.memory}
    return core.PodSpecArgsDict(
        restart_policy="Never",
        automount_service_account_token=False,
        enable_service_links=False,
        security_context=pod_security(),
        containers=[
            core.ContainerArgsDict(
                name="compare",
                image=spec.image,
                command=["python3", f"{_HOME}/compare.py"],
                working_dir=_SCRATCH,
                env=[*environment(clear), core.EnvVarArgsDict(name="API_KEY", value_from=secret)],
                resources=core.ResourceRequirementsArgsDict(requests=amounts, limits=amounts),
                security_context=container_security(non_root=True),
                termination_message_policy="FallbackToLogsOnError",
                volume_mounts=[
                    core.VolumeMountArgsDict(name="program", mount_path=_HOME, read_only=True),
                    core.VolumeMountArgsDict(
                        name="tokenizer",
                        mount_path=TOKENIZER,
                        sub_path=tokenizer.sub_path or None,
                        read_only=True,
                    ),
                    core.VolumeMountArgsDict(name="artifacts", mount_path=_ARTIFACTS),
                    core.VolumeMountArgsDict(name="scratch", mount_path=_SCRATCH),
                ],
            )
        ],
        volumes=[
            core.VolumeArgsDict(
                name="program", config_map=core.ConfigMapVolumeSourceArgsDict(name=code)
            ),
            claim_volume("tokenizer", tokenizer.claim),
            core.VolumeArgsDict(
                name="artifacts", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit="4Gi")
            ),
            core.VolumeArgsDict(
                name="scratch", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit="2Gi")
            ),
        ],
    )
