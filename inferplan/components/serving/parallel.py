"""The parallel sizes of one replica, in the words that vLLM and TensorRT-LLM share."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from inferplan.components.serving.served_model import ServedModel
from inferplan.components.spec import Spec, rule
from inferplan.components.stores import WeightsSpec


class ParallelSizes(Spec):
    """The sizes that multiply to the accelerators of one engine."""

    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """Accelerators that each layer is split over."""
    pipeline_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """Stages of the layers, each on its own accelerators."""

    @property
    def world_size(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def sizes(self) -> str:
        return (
            f"tensorParallelSize {self.tensor_parallel_size} x pipelineParallelSize"
            f" {self.pipeline_parallel_size} = {self.world_size}"
        )


class ShardedModel(ParallelSizes, ServedModel):
    """A model whose parallel sizes decide how many accelerators a replica has."""

    weights: WeightsSpec

    @property
    def accelerators_field(self) -> str:
        """The sizes decide, unless the user wrote their product."""
        return "tensorParallelSize" if self.accelerators is None else "accelerators"

    @rule
    def _shards_use_every_card(self) -> Iterator[str]:
        if self.accelerators is not None and self.world_size != self.accelerators:
            yield (
                f"{self.sizes}, but accelerators is {self.accelerators}. Make them equal, or leave"
                " accelerators out."
            )
