"""The union of every engine's models, discriminated by `engine`: an engine is one folder next to this file and one name in here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.serving.pytriton.spec import PyTritonSpec
from components.serving.ray_serve.spec import RayServeSpec
from components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from components.serving.triton.spec import TritonSpec
from components.serving.vllm.spec import VllmSpec

ModelSpec = Annotated[VllmSpec | TritonSpec | TensorrtLlmSpec | PyTritonSpec | RayServeSpec, Field(discriminator="engine")]
