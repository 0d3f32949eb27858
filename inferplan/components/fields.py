"""Fields of Kubernetes objects as the SDK's typed dictionaries (`core.PodSpecArgsDict`).

Components use the dictionaries instead of the SDK's classes (`core.PodSpecArgs`), because a program with classes registers about
10% slower (`python -m benchmarks.registration`, 60 models, 2026-11). The classes ignore None; dictionaries do not.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from pulumi_kubernetes._tables import SNAKE_TO_CAMEL_CASE_TABLE

Fields = TypeVar("Fields", bound=Mapping[str, object])

# Their keys are chosen by users, so they are never translated.
_MAPS = {"annotations", "labels", "limits", "match_labels", "node_selector", "requests"}


def present(fields: Fields) -> Fields:
    """Return `fields` without those that are None."""
    return cast("Fields", {name: value for name, value in fields.items() if value is not None})


def manifest(value: Any) -> Any:
    """Return `value` with the field names of the Kubernetes API, for a custom resource: the SDK translates typed resources only."""
    if isinstance(value, Mapping):
        return {SNAKE_TO_CAMEL_CASE_TABLE.get(name, name): each if name in _MAPS else manifest(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [manifest(each) for each in value]
    return value
