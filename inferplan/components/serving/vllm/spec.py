"""The settings of a model behind vLLM, with vLLM's names and values. vLLM decides about those that
are not set.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints, field_validator
from pydantic.alias_generators import to_camel

from inferplan.components.handles import NodeTarget, Task
from inferplan.components.naming import content_key
from inferplan.components.serving.adapters import rank_problems
from inferplan.components.serving.hardware import default_image_of, vendor_of
from inferplan.components.serving.openai_model import OpenAiModel
from inferplan.components.serving.scaling_spec import PODS, Query, ReplicaRange, Signal
from inferplan.components.serving.traffic_spec import Batching
from inferplan.components.serving.vllm import cpu, values
from inferplan.components.serving.vllm.combinations import contradictions
from inferplan.components.serving.vllm.engine_args import (
    DEFAULT_LORA_RANK,
    MEMORY_SHARE,
    VLLM_RESERVED_ENV,
    LoraName,
    VllmEngineArgs,
)
from inferplan.components.serving.vllm.gaudi import GaudiTuning, field_of
from inferplan.components.serving.vllm.reserved_options import repeated
from inferplan.components.spec import DnsLabel, FieldError, rule
from inferplan.documents.errors import SpecError
from inferplan.hardware.accelerators import Accelerator

# The first release with the classes that payload/load_adapters.py extends (wheels, read 2026-11).
_RUNTIME_LOADING = (0, 24)
# Each API server of a replica numbers adapters by itself (vLLM 0.32, entrypoints/cli/serve.py).
_SEVERAL_SERVERS = {"--api-server-count", "-asc"}
RECIPE_VARIABLE = "PT_HPU_RECIPE_CACHE_CONFIG"
# vLLM takes larger steps on accelerators of 70 GiB and more, the A100 excepted
# (EngineArgs.get_batch_defaults, 0.33.0).
_LARGE_BYTES, _SMALL_STEPS = 70 << 30, "nvidia-a100"


class VllmSpec(VllmEngineArgs, OpenAiModel):
    """One model behind vLLM's OpenAI-compatible server. Field names and values are vLLM's own."""

    device_share: ClassVar[float] = MEMORY_SHARE
    share_field: ClassVar[str] = "gpuMemoryUtilization"
    cpu_build = cpu.CPU_BUILD
    sides_answer_alone: ClassVar[bool] = True
    reserved_env: ClassVar[Mapping[str, str]] = VLLM_RESERVED_ENV
    takes_public_names: ClassVar[bool] = True
    reserved_names: ClassVar[Mapping[str, str]] = {
        "vllm": (
            "for a Service of this name Kubernetes sets VLLM_PORT=tcp://... in pods, which vLLM"
            " rejects"
        )
    }
    scaling_queries: ClassVar[Mapping[Signal, Query]] = {
        **ReplicaRange.scaling_queries,
        "waiting_requests": Query(f"sum(vllm:num_requests_waiting{{{PODS}}})"),
        "kv_cache_percent": Query(f"100 * sum(vllm:kv_cache_usage_perc{{{PODS}}})"),
    }

    engine: Literal["vllm"]
    task: Task = "generate"
    """The work of the model: `generate` text (chat and completions), `embed`, `rerank` or
    `classify` texts, or `transcribe` speech.
    """
    gaudi: GaudiTuning | None = None
    """Compilation and warm-up of vLLM on Gaudi. Default: vllm-gaudi decides."""
    lora_artifacts: dict[LoraName, DnsLabel] = {}
    """Further LoRA adapters by the name that clients send as `model`, each the name of an artifact
    that holds it.
    """
    lora_loading: Literal["start", "runtime"] = "start"
    """When servers load the adapters of loraArtifacts: `start` loads them with the model, `runtime`
    at the first request after their files are copied, so that adding one restarts no server.
    """
    tokenizer: DnsLabel | None = None
    """The artifact that holds the tokenizer. Default: the tokenizer next to the weights."""
    usage_log: bool = False
    """True makes the server print the tokens and times of each request, which `inferplan usage`
    reads. A change restarts it.
    """
    extra_args: list[Annotated[str, StringConstraints(min_length=1, max_length=4000)]] = []
    """Further `vllm serve` arguments as vLLM spells them. Arguments that a field sets are rejected.
    """

    @property
    def warms_up(self) -> bool:
        return self.gaudi is None or not self.gaudi.skip_warmup

    def batching(self, accelerator: Accelerator) -> Batching:
        large = accelerator.memory_bytes >= _LARGE_BYTES and not accelerator.name.startswith(
            _SMALL_STEPS
        )
        return Batching(
            framework="vllm",
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            max_sequences=self.max_num_seqs or (1024 if large else 256),
            max_tokens_per_step=self.max_num_batched_tokens or (8192 if large else 2048),
            memory_share=self.usable_share,
            context_length=self.max_model_len if isinstance(self.max_model_len, int) else None,
            quantization=self.quantization,
            cache_type=None if self.kv_cache_dtype == "auto" else self.kv_cache_dtype,
            prefix_caching=self.enable_prefix_caching is not False,
        )

    @property
    def takes_prompts(self) -> bool:
        return self.task == "generate"

    @property
    def why_no_prompts(self) -> str:
        return "" if self.takes_prompts else f"its task is {self.task}"

    @property
    def upload_bytes(self) -> int:
        """OpenAI's clients send files of speech of up to 25 MB."""
        return 25_000_000 if self.task == "transcribe" else 0

    @property
    def usable_share(self) -> float:
        return self.gpu_memory_utilization or self.device_share

    @property
    def reads_buckets(self) -> bool:
        """vLLM streams weights from a bucket, and adapters from files only."""
        return not self.takes_adapters

    @property
    def adapter_names(self) -> tuple[str, ...]:
        """The names of all adapters, those of the weights' directory first."""
        return (*self.lora_adapters, *self.lora_artifacts)

    @property
    def takes_adapters(self) -> bool:
        return bool(self.adapter_names) or self.lora_loading == "runtime"

    @property
    def runtime_artifacts(self) -> frozenset[str]:
        """The artifacts that servers find on the share while they run."""
        if self.lora_loading == "start":
            return frozenset()
        return frozenset(self.lora_artifacts.values()) - {self.tokenizer}

    def problems_of_files(self, directory: Path, target: NodeTarget) -> Iterator[str]:  # noqa: ARG002 - the same on every pool
        yield from rank_problems(
            self.lora_adapters,
            directory,
            self.max_lora_rank or DEFAULT_LORA_RANK,
            default=self.max_lora_rank is None,
        )

    @rule
    def _settings_fit(self) -> Iterator[str]:
        words = {each.partition("=")[0].replace("_", "-") for each in self.extra_args}
        if self.task != "generate" and (doubled := sorted(words & {"--runner", "--convert"})):
            yield (
                f"task: {self.task} sets --runner and --convert, and extraArgs has"
                f" {' and '.join(doubled)}. Remove one of them"
            )
        if self.usage_log and "--disable-log-stats" in words:
            yield (
                "usageLog reads vLLM's statistics, and extraArgs has --disable-log-stats. Remove"
                " one of them"
            )
        if self.lora_loading == "runtime":
            if self.preheat is None:
                yield (
                    "loraLoading: runtime needs preheat, which copies adapters to the share. Add"
                    " preheat, or remove loraLoading"
                )
            if several := sorted(words & _SEVERAL_SERVERS):
                yield (
                    f"loraLoading: runtime needs one API server for each replica, but extraArgs has"
                    f" {' and '.join(several)}. Remove one of them"
                )
            release = re.match(r"([0-9]+)\.([0-9]+)", values.release_in(self.image or ""))
            if release and tuple(map(int, release.groups())) < _RUNTIME_LOADING:
                yield (
                    f"loraLoading: runtime needs vLLM 0.24 or newer, not {self.image}. Use a newer"
                    " image, or remove loraLoading"
                )
        if self.gaudi is not None and self.gaudi.contiguous_pa and self.enable_prefix_caching:
            yield (
                "enablePrefixCaching and gaudi.contiguousPa exclude each other on Gaudi; turn one"
                " of them off"
            )
        if repeated := [
            f"{name} (use the field {field})"
            for name in self.env
            if (field := field_of(name)) is not None
        ]:
            yield f"{', '.join(repeated)} is not allowed in env. Remove it"

    def folder_on(self, target: NodeTarget) -> str | None:
        """The directory of compiled graphs. Gaudi compiles them again for other weights, images,
        accelerators, sizes and data types.
        """
        kept = self.preheat is not None and self.warms_up and RECIPE_VARIABLE not in self.env
        if not kept or target.accelerator is None or not target.accelerator.vendor.compiles_graphs:
            return None
        shape = (
            self.tensor_parallel_size,
            self.pipeline_parallel_size,
            self.dtype,
            self.quantization,
            self.kv_cache_dtype,
        )
        image = self.image or default_image_of(self, target) or ""
        key = content_key(
            json.dumps(
                [self.weights.path, self.weights.revision, image, target.accelerator.name, *shape]
            )
        )
        return f"recipes/{self.weights.path.rpartition('/')[2]}/{key}"

    @property
    def traces(self) -> bool:
        return True

    @property
    def logs_usage(self) -> bool:
        return self.usage_log

    def unknown_options(self) -> Iterator[tuple[str, str]]:
        release = values.release_of(self.image or "")
        for each in values.parsed(self.extra_args, release):
            if each.name not in values.known_options(release):
                yield each.name, f"vLLM {release}"

    def _rejected_by_vllm(self, release: str) -> Iterator[SpecError]:
        """Yield the arguments and variables that end a server of `release` at its start."""
        fields = self.options(None)
        listed = (
            *values.unknown(self.extra_args, release),
            *values.problems(self.extra_args, release),
        )
        for index, problem in sorted(listed):
            yield SpecError(("extraArgs", index), problem)
        for field, problem in values.field_problems(fields, release):
            yield SpecError((to_camel(field),), problem)
        for name, problem in values.variable_problems(self.env, release):
            yield SpecError(("env", name), problem)
        yield from contradictions(self.extra_args, fields, release)

    def _image_on(self, target: NodeTarget) -> str:
        return self.image or default_image_of(self, target) or ""

    def doubts_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Arguments that a release without a table may reject, and ignored variables."""
        image = self._image_on(target)
        release = values.release_of(image)
        if not values.is_of_release(image):
            for each in self._rejected_by_vllm(release):
                yield SpecError(
                    each.path, f"{each.message} This is by the options of vLLM {release}."
                )
        for name, problem in values.ignored_variables(self.env, release):
            yield SpecError(("env", name), problem)

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield settings that only Gaudi reads, and replicas over several nodes where that does not
        work or is not needed.
        """
        image = self._image_on(target)
        if values.is_of_release(image):
            yield from self._rejected_by_vllm(values.release_of(image))
        vendor = vendor_of(target)
        yield from self.split_errors(target)
        if vendor is None:
            yield from cpu.errors(self, target)
        if self.gaudi is not None and not (vendor and vendor.compiles_graphs):
            title = "no accelerator" if target.accelerator is None else target.accelerator.title
            yield SpecError(
                ("gaudi",),
                f"These settings apply to Gaudi only. Pool {target.pool!r} has {title}. Remove"
                " gaudi.",
            )
        if self.nnodes > 1 and vendor is not None and not vendor.spans_nodes:
            yield SpecError(
                ("nnodes",),
                "vLLM over several nodes is not validated on Gaudi (vllm-gaudi 0.26.0). Shard over"
                " the accelerators of one node",
            )
        else:
            yield from self.nodes_errors(target)

    @rule
    def _names_of_adapters_are_in_bodies_at_v1(self) -> Iterator[FieldError]:
        if self.task == "classify" and self.lora_consumers:
            yield FieldError(
                "vLLM serves task: classify outside of /v1, where the gateway does not read names."
                " Remove loraConsumers, or serve the adapter by a model of its own.",
                "loraConsumers",
            )

    @rule
    def _sides_have_one_transfer(self) -> Iterator[FieldError]:
        for index, argument in enumerate(self.extra_args):
            if self.prefill is not None and argument.startswith("--kv-transfer-config"):
                yield FieldError(
                    "prefill and decode set --kv-transfer-config for both sides. Remove it.",
                    *("extraArgs", index),
                )

    @rule
    def _adapters_and_artifacts_exist_once(self) -> Iterator[str]:
        twice = sorted(set(self.lora_adapters) & set(self.lora_artifacts))
        if self.served_model_name in self.adapter_names or twice:
            name = twice[0] if twice else self.served_model_name
            yield (
                f"an adapter is called {name!r}, as another adapter or servedModelName is. Give the"
                " adapter another name"
            )
        named = [
            (f"loraArtifacts.{name}", artifact) for name, artifact in self.lora_artifacts.items()
        ]
        named += [("tokenizer", self.tokenizer)] if self.tokenizer is not None else []
        lost = [
            f"{field} names {artifact!r}"
            for field, artifact in named
            if artifact not in self.artifacts
        ]
        if lost:
            names = ", ".join(self.artifacts) or "none"
            yield (
                f"{'; '.join(lost)}, and artifacts has {names}. Add it there, with its store and"
                " path."
            )
        if self.tokenizer is not None and any(
            each.partition("=")[0] == "--tokenizer" for each in self.extra_args
        ):
            yield "--tokenizer in extraArgs repeats the field tokenizer. Remove one of them."

    @field_validator("extra_args")
    @classmethod
    def _extra_args_repeat_no_field(cls, arguments: list[str]) -> list[str]:
        if taken := repeated(arguments):
            raise ValueError(f"{', '.join(taken)} is not allowed in extraArgs. Remove it")
        return arguments
