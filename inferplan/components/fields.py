"""Fields of Kubernetes objects as the SDK's typed dictionaries (`core.PodSpecArgsDict`).

Components use the dictionaries instead of the SDK's classes (`core.PodSpecArgs`), because a program
with classes registers about 10% slower (`python -m benchmarks registration`, 60 models, 2026-11).
The classes ignore None; dictionaries do not.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from pulumi_kubernetes._tables import SNAKE_TO_CAMEL_CASE_TABLE

Fields = TypeVar("Fields", bound=Mapping[str, object])

# Their keys are chosen by users, or need no translation, so they stay as they are.
_MAPS = {
    "allocatable", "allocated_resource_statuses", "allocated_resources", "annotations", "binary_data", "capacity", "data", "default",
    "default_request", "disrupted_pods", "hard", "labels", "limits", "match_labels", "max", "max_limit_request_ratio", "min",
    "node_selector", "options", "parameters", "pod_fixed", "requests", "resources", "string_data", "used", "user_annotations",
    "volume_attributes",
}  # fmt: skip
# The selector of a Service is labels, that of a workload or policy has these fields.
_SELECTORS = {"match_labels", "match_expressions"}
_WORD = re.compile("_(ips|cidrs|urls)$|_([a-z0-9])")
_PLURALS = {"ips": "IPs", "cidrs": "CIDRs", "urls": "URLs"}


def present(fields: Fields) -> Fields:
    """Return `fields` without those that are None."""
    return cast("Fields", {name: value for name, value in fields.items() if value is not None})


@cache
def api_name(name: str) -> str:
    """The name of the field `name` in the Kubernetes API: `clusterIP` of `cluster_ip`."""
    return SNAKE_TO_CAMEL_CASE_TABLE.get(name) or _WORD.sub(
        lambda part: _PLURALS[part[1]] if part[1] else part[2].upper(), name
    )


def manifest(value: Any) -> Any:
    """Return `value` with the field names of the Kubernetes API."""
    if isinstance(value, Mapping):
        return {
            api_name(name): each if _is_map(name, each) else manifest(each)
            for name, each in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [manifest(each) for each in value]
    return value


def _is_map(name: str, value: Any) -> bool:
    return name in _MAPS or (
        name == "selector" and isinstance(value, Mapping) and _SELECTORS.isdisjoint(value)
    )
