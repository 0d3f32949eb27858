"""The union of every engine's models, discriminated by `engine`, and the engine of each: an engine is a folder next to this file, a
name in the union and a case of `engine_of`.
"""

from __future__ import annotations

from typing import Annotated, Any, assert_never

from pydantic import Field

from components.serving.engine import Engine
from components.serving.pytriton.spec import PyTritonSpec
from components.serving.ray_serve.spec import RayServeSpec
from components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from components.serving.triton.spec import TritonSpec
from components.serving.vllm.spec import VllmSpec

ModelSpec = Annotated[VllmSpec | TritonSpec | TensorrtLlmSpec | PyTritonSpec | RayServeSpec, Field(discriminator="engine")]


def engine_of(model: ModelSpec) -> Engine[Any]:
    """Return the module that serves `model`. Only that engine is imported, since each costs time."""
    match model:
        case VllmSpec():
            from components.serving.vllm import service as vllm

            return vllm
        case TritonSpec():
            from components.serving.triton import service as triton

            return triton
        case TensorrtLlmSpec():
            from components.serving.tensorrt_llm import service as tensorrt_llm

            return tensorrt_llm
        case PyTritonSpec():
            from components.serving.pytriton import service as pytriton

            return pytriton
        case RayServeSpec():
            from components.serving.ray_serve import service as ray_serve

            return ray_serve
        case _:
            assert_never(model)
