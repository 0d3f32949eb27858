"""Triton's ModelConfig message, and its text form."""

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


@cache
def messages() -> ModuleType:
    """Return the generated module of `model_config.proto`. Raises ImportError when tritonclient is
    not installed.
    """
    package = find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise ImportError("tritonclient is not installed. Install inferplan with its dependencies.")
    # By path: importing the package would import grpc's generated services with it, which need
    # grpc's own version.
    path = Path(next(iter(package.submodule_search_locations))) / "grpc" / "model_config_pb2.py"
    spec = spec_from_file_location("inferplan_triton_model_config", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded. Install tritonclient again.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(config: Mapping[str, Any]) -> str:
    """Return the text of `config.pbtxt` for a ModelConfig in protobuf's JSON form; the same message
    gives the same bytes.
    """
    from google.protobuf import json_format, text_format

    message = json_format.ParseDict(dict(config), messages().ModelConfig())
    return text_format.MessageToString(message, as_utf8=True)


def config_of(text: str) -> Any:
    """Return the ModelConfig of a `config.pbtxt`. Raises google.protobuf.text_format.ParseError
    with line and column.
    """
    from google.protobuf import text_format

    return text_format.Parse(text, messages().ModelConfig())
