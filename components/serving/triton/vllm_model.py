"""A model of Triton's vllm backend: vLLM's engine behind Triton's protocols. vLLM batches and streams; Triton hands requests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator

from components.serving.triton.models import RepositoryModel
from components.serving.triton.tensors import InputTensor, OutputTensor
from components.serving.vllm.engine_args import DECIDED, VLLM_OPTIONS, EngineArgName, EngineArgValue, VllmEngineArgs, defaults_on, stray

if TYPE_CHECKING:
    from components.nodes.accelerators import Accelerator

# Tensors of triton-inference-server/vllm_backend src/model.py (8de0c148, 2026-01); with auto-completion off they have to be written out.
_FLAGS = (
    "exclude_input_in_output",
    "return_finish_reason",
    "return_cumulative_logprob",
    "return_logprobs",
    "return_num_input_tokens",
    "return_num_output_tokens",
)
_OUTPUTS = {
    "text_output": "TYPE_STRING",
    "finish_reason": "TYPE_STRING",
    "cumulative_logprob": "TYPE_FP32",
    "logprobs": "TYPE_STRING",
    "num_input_tokens": "TYPE_UINT32",
    "num_output_tokens": "TYPE_UINT32",
}
_DECIDED = {**DECIDED, "tokenizer": "weights says where the model is", "disable_log_stats": "reportMetrics decides about it"}


class VllmModel(VllmEngineArgs, RepositoryModel):
    """A model that Triton's vllm backend serves; it always may answer in pieces, and a request asks for them with `stream`."""

    device_share: ClassVar[float] = 0.92  # vLLM's default of gpu_memory_utilization (0.33.0)

    kind: Literal["vllm"]
    max_batch_size: Literal[0] = 0
    """Only 0: vLLM batches by itself."""
    engine_args: dict[EngineArgName, EngineArgValue] = {}
    """Further engine arguments, in the spelling of vLLM's AsyncEngineArgs; none that a field here sets."""
    trust_remote_code: Literal[False] = False
    """Only false here. Use engine: vllm for a model with its own code: policies cannot check the files of a Triton repository."""
    report_metrics: bool = False
    """Shows vLLM's own metrics among Triton's; vLLM's front end then runs inside the engine's process, which costs throughput."""
    health_check: bool = False
    """Counts the model as ready only while vLLM's engine answers its own check (beta)."""

    @field_validator("engine_args")
    @classmethod
    def _engine_args_repeat_no_field(cls, given: dict[str, Any]) -> dict[str, Any]:
        refused = list(stray(given, _DECIDED, fields=VLLM_OPTIONS))
        if refused:
            raise ValueError(f"{', '.join(refused)} is not allowed in engineArgs. Remove it")
        return given

    @property
    def reads_weights(self) -> bool:
        """True: vLLM loads them."""
        return True

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        """Inputs by name."""
        optional = {"stream": "TYPE_BOOL", "sampling_parameters": "TYPE_STRING", **dict.fromkeys(_FLAGS, "TYPE_BOOL")}
        image = {"image": _input("TYPE_STRING", [-1], optional=True)}
        given = {name: _input(kind, [1], optional=True) for name, kind in optional.items()}
        return {"text_input": _input("TYPE_STRING", [1]), **image, **given}

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        """Outputs by name."""
        return {name: OutputTensor.model_validate({"dataType": kind, "dims": [-1]}) for name, kind in _OUTPUTS.items()}

    @property
    def streams(self) -> bool:
        """The backend asks for the decoupled policy, whatever a request wants."""
        return True

    @property
    def share(self) -> float:
        """The share of its accelerators' memory that the engine claims."""
        return self.gpu_memory_utilization or self.device_share

    def settings(self, weights: str, accelerator: Accelerator | None) -> dict[str, Any]:
        """`model.json`: the engine's arguments, for weights at the path `weights`."""
        given = {field: value for field in VLLM_OPTIONS if (value := getattr(self, field)) is not None}
        if self.max_model_len == "auto":
            given["max_model_len"] = -1
        own: dict[str, Any] = {"model": weights, **defaults_on(accelerator), **given}
        own["disable_log_stats"] = not self.report_metrics
        if self.lora_adapters:
            own["enable_lora"] = True
        return {**own, **self.engine_args}

    def adapters(self, weights: str) -> dict[str, str]:
        """`multi_lora.json`: where each adapter lies."""
        return {name: f"{weights}/{path}" for name, path in self.lora_adapters.items()}


def _input(data_type: str, dims: list[int], *, optional: bool = False) -> InputTensor:
    return InputTensor.model_validate({"dataType": data_type, "dims": dims, "optional": optional})
