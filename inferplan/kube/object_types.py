"""Kubernetes' own types and their fields, from `object_types.json`."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def object_types() -> dict[str, Any]:
    return json.loads(
        files("inferplan.kube").joinpath("object_types.json").read_text(encoding="utf-8")
    )
