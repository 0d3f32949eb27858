"""What a user writes about a model behind vLLM. Field names and values are vLLM's own; what vLLM decides itself stays unset."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import StringConstraints, field_validator, model_validator

from components.serving.served_model import ServedModel
from components.serving.vllm.engine_args import VLLM_OPTIONS, VllmEngineArgs

# Options that belong to this project: repeated by hand they would contradict the Service, the probes, the mount or the key.
_OURS = (
    *("--host", "--port", "--api-key", "--model", "--served-model-name", "--load-format", "--shutdown-timeout"),
    *("--root-path", "--ssl-keyfile", "--ssl-certfile", "--config", "--revision", "--download-dir", "--uds"),
    *("--enable-lora", "--no-enable-lora", "--lora-modules"),
)


class VllmSpec(VllmEngineArgs, ServedModel):
    """One model behind vLLM's OpenAI-compatible server. Field names and values are vLLM's own."""

    entry: ClassVar[str] = "components.serving.vllm.service:VllmService"
    device_share: ClassVar[float] = 0.92  # vLLM's default of gpu_memory_utilization (0.33.0)

    engine: Literal["vllm"]
    served_model_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$", max_length=200)] | None = None
    """The name clients send as `model`; by default the model's key in this file."""
    extra_args: list[Annotated[str, StringConstraints(min_length=1, max_length=4000)]] = []
    """Further `vllm serve` arguments as vLLM spells them; none that a field here sets."""

    @property
    def cards(self) -> int:
        """Accelerators for each replica."""
        return self.accelerators or self.world_size

    @property
    def usable_share(self) -> float:
        """The share of the cards' memory that vLLM may use."""
        return self.gpu_memory_utilization or self.device_share

    @property
    def reads_buckets(self) -> bool:
        """vLLM streams weights from a bucket, and adapters from files only."""
        return not self.lora_adapters

    @model_validator(mode="after")
    def _shards_use_every_card(self) -> Self:
        product = self.tensor_parallel_size * self.pipeline_parallel_size
        if self.accelerators is not None and product != self.accelerators:
            raise ValueError(
                f"tensorParallelSize {self.tensor_parallel_size} x pipelineParallelSize {self.pipeline_parallel_size} = {product}, "
                f"but accelerators is {self.accelerators}; make them equal, or leave accelerators out"
            )
        return self

    @model_validator(mode="after")
    def _adapters_have_names_of_their_own(self) -> Self:
        if self.served_model_name in self.lora_adapters:
            raise ValueError(f"loraAdapters repeats servedModelName {self.served_model_name!r}; call the adapter differently")
        return self

    @field_validator("extra_args")
    @classmethod
    def _extra_args_repeat_no_field(cls, arguments: list[str]) -> list[str]:
        from pydantic.alias_generators import to_camel

        fields = {spelling: to_camel(name) for name, spellings in VLLM_OPTIONS.items() for spelling in spellings}
        given = [argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("-")]
        repeated = [f"{option} (use the field {fields[option]})" for option in given if option in fields]
        repeated += [f"{option} (inferplan sets it)" for option in given if option in _OURS]
        repeated += [f"{option} (it runs code from the model repository)" for option in given if option == "--trust-remote-code"]
        if repeated:
            raise ValueError(f"{', '.join(repeated)} may not stand in extraArgs; remove it")
        return arguments
