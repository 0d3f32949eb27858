"""Applies a stack's `images` to every pod: names in the mirror, and pull secrets. One place for all components, also for extra objects."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, cast

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.images.spec import ImagesSpec
from images.mirror import mirrored

_CONTAINERS = ("containers", "init_containers", "initContainers")
Transformation = Callable[[pulumi.ResourceTransformationArgs], pulumi.ResourceTransformationResult | None]


def image_options(spec: ImagesSpec) -> pulumi.ResourceOptions:
    """Options whose resources, and the resources below them, get their images and pull secrets from `spec`."""
    return pulumi.ResourceOptions(transformations=[_transformation(spec)]) if spec.model_fields_set else pulumi.ResourceOptions()


def _transformation(spec: ImagesSpec) -> Transformation:
    def transform(resource: pulumi.ResourceTransformationArgs) -> None:
        if resource.type_.startswith("kubernetes:"):
            _rewrite(resource.props, spec)

    return transform


def _rewrite(value: object, spec: ImagesSpec) -> None:
    if isinstance(value, list | tuple):
        for each in value:
            _rewrite(each, spec)
        return
    fields = _fields(value)
    if fields is None:
        return
    if spec.mirror is not None:
        for container in (each for key in _CONTAINERS for each in fields.get(key) or ()):
            parts = _fields(container)
            if parts is not None and isinstance(image := parts.get("image"), str):
                parts["image"] = mirrored(image, spec.mirror)
    if spec.image_pull_secrets and isinstance(fields.get("containers"), list):
        _add_secrets(fields, "imagePullSecrets" if isinstance(value, dict) else "image_pull_secrets", spec)
    for each in list(fields.values()):
        _rewrite(each, spec)


def _add_secrets(pod: MutableMapping[str, Any], key: str, spec: ImagesSpec) -> None:
    present = list(pod.get(key) or [])
    names = {(_fields(each) or {}).get("name") for each in present}
    typed = key == "image_pull_secrets"
    new = [each.name for each in spec.image_pull_secrets if each.name not in names]
    if new:
        pod[key] = [*present, *(core.LocalObjectReferenceArgs(name=name) if typed else {"name": name} for name in new)]


def _fields(value: object) -> MutableMapping[str, Any] | None:
    """The fields of a plain object, or of the SDK's input types, which keep them by their Python names."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return vars(value) if type(value).__module__.startswith("pulumi_kubernetes.") else None
