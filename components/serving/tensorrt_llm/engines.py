"""Which engines a model needs: the key that tells them from others, where they lie, and what the Job that builds them is asked.

An engine that is built stays built: the key holds the weights, the card, the image, the parallel sizes and the options, and nothing
else, so that a new release of this project builds nothing again. Nothing here is registered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from components.handles import ModelMount
from components.naming import content_key
from components.preheat.spec import PreheatSpec
from components.serving.engine import Site
from components.serving.tensorrt_llm.spec import EngineBuild, TensorrtLlmSpec

WEIGHTS = "/weights"
TARGET = "/target"
# Where the images keep TensorRT-LLM's examples: 25.06 and 25.12 at the first (public build logs), earlier ones at the last.
EXAMPLES = ("/app/examples/models/core", "/app/examples/models/contrib", "/app/examples")
_ROUNDS = 2


@dataclass(frozen=True, kw_only=True)
class Engines:
    """The engines of one model on one kind of card, by one image."""

    name: str
    spec: TensorrtLlmSpec
    build: EngineBuild
    preheat: PreheatSpec
    site: Site = field(repr=False)
    weights: ModelMount
    image: str

    @property
    def key(self) -> str:
        """What these engines depend on, as one name."""
        accelerator = self.site.target.accelerator
        origin = self.weights.claim.origin or self.weights.claim.name
        options = json.dumps([self.build.model_family, self.spec.world_size, *self.convert_args, *self.build_args])
        card = "" if accelerator is None else f"{accelerator.name} {accelerator.resource}"
        return content_key(origin, self.weights.sub_path, card, self.image, options)

    @property
    def directory(self) -> str:
        """The directory on the share that holds them, by key and round, so that nothing is ever overwritten."""
        return f"engines/{self.spec.weights.path.rpartition('/')[2]}/{self.key}-r{self.build.round}"

    @property
    def convert_args(self) -> list[str]:
        """Options of convert_checkpoint.py, but for where it writes."""
        spec = self.spec
        given = {
            "--model_dir": WEIGHTS,
            "--dtype": spec.dtype,
            "--tp_size": spec.tensor_parallel_size,
            "--pp_size": spec.pipeline_parallel_size,
        }
        return [*(f"{option}={value}" for option, value in given.items()), *self.build.convert_args]

    @property
    def build_args(self) -> list[str]:
        """Options of trtllm-build, but for where it reads and writes."""
        given = {
            "--workers": min(self.build.cards, self.spec.world_size),
            "--max_batch_size": self.spec.max_batch_size,
            "--max_seq_len": self.spec.max_seq_len,
            "--max_input_len": self.build.max_input_len,
            "--max_num_tokens": self.spec.max_num_tokens,
        }
        return [*(f"{option}={value}" for option, value in given.items() if value is not None), *self.build.build_args]

    @property
    def request(self) -> dict[str, Any]:
        """The JSON document that the Job's program reads; it holds no credential."""
        return {
            "job": f"{self.name}-engines",
            "weights": WEIGHTS,
            "source": f"{self.spec.weights.path} at {self.spec.weights.revision or 'no revision'} for {self.image}",
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
    """The engines of model `name`, None where the LLM API serves it.

    Raises TypeError where there is no share that every node sees: engines are built on one node and read on others.
    """
    if spec.build is None:
        return None
    if spec.preheat is None or not isinstance(site.weights, ModelMount) or site.weights.claim.nodes is not None:
        raise TypeError(f"models.{name}.build: engines need a share that every node sees; add preheat: {{into: <nfs store>}}")
    return Engines(name=name, spec=spec, build=spec.build, preheat=spec.preheat, site=site, weights=site.weights, image=image)
