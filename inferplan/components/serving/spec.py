"""The union of every engine's models, discriminated by `engine`, and the engine of each: a folder,
a name and a case of `engine_of`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, assert_never, get_args

from pydantic import Field

from inferplan.components.serving.engine import Engine
from inferplan.components.serving.pytriton.spec import PyTritonSpec
from inferplan.components.serving.ray_serve.spec import RayServeSpec
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.serving.sglang.spec import SglangSpec
from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.components.serving.triton.spec import TritonSpec
from inferplan.components.serving.vllm.spec import VllmSpec

ModelSpec = Annotated[
    VllmSpec | TritonSpec | TensorrtLlmSpec | PyTritonSpec | RayServeSpec | SglangSpec,
    Field(discriminator="engine"),
]
MODEL_SPECS: Mapping[str, type[ServedModel]] = {
    get_args(each.model_fields["engine"].annotation)[0]: each
    for each in get_args(get_args(ModelSpec)[0])
}
"""The specification of each engine's models."""


def engine_of(model: ModelSpec) -> Engine[Any]:
    """Return the module that serves `model`. Only that engine is imported, since each costs time."""
    match model:
        case VllmSpec():
            from inferplan.components.serving.vllm import service as vllm

            return vllm
        case SglangSpec():
            from inferplan.components.serving.sglang import service as sglang

            return sglang
        case TritonSpec():
            from inferplan.components.serving.triton import service as triton

            return triton
        case TensorrtLlmSpec():
            from inferplan.components.serving.tensorrt_llm import service as tensorrt_llm

            return tensorrt_llm
        case PyTritonSpec():
            from inferplan.components.serving.pytriton import service as pytriton

            return pytriton
        case RayServeSpec():
            from inferplan.components.serving.ray_serve import service as ray_serve

            return ray_serve
        case _:
            assert_never(model)
