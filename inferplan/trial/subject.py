"""The subject of a trial, for every engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model `name` of a stack: its `spec`, the `container` of its server in the plan, the
    directory of its files, and the program of its engine on this computer.
    """

    name: str
    spec: Any
    container: Mapping[str, Any]
    weights: Path
    program: str
