"""Triton's ModelConfig message, and its text form. It knows the message's fields and none of our specs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

_FILE = Path("grpc") / "model_config_pb2.py"


@cache
def messages() -> ModuleType:
    """The generated module of `model_config.proto`. Raises ImportError when tritonclient is not installed."""
    package = find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise ImportError("tritonclient is not installed; run make setup")
    # By path: importing the package would import grpc's generated services with it, which need grpc's own version.
    path = Path(next(iter(package.submodule_search_locations))) / _FILE
    spec = spec_from_file_location("inferplan_triton_model_config", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded; run make setup")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(config: Any) -> str:
    """A ModelConfig as `config.pbtxt` holds it; the same message gives the same bytes."""
    from google.protobuf import text_format

    return text_format.MessageToString(config, as_utf8=True)


def parse_into(message: Any, values: Mapping[str, Any]) -> None:
    """Set fields of `message` from protobuf's JSON form."""
    from google.protobuf import json_format

    json_format.ParseDict(dict(values), message)


def config_of(text: str) -> Any:
    """The ModelConfig that `text` holds. Raises google.protobuf.text_format.ParseError with line and column."""
    from google.protobuf import text_format

    return text_format.Parse(text, messages().ModelConfig())
