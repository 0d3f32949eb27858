"""Applies a stack's `images` to every pod: names in the mirror, and pull secrets. One place for all
components, also for extra objects.
"""

from typing import Any

import pulumi

from inferplan.components.images.spec import ImagesSpec
from inferplan.images.mirror import mirrored

_CONTAINERS = ("containers", "init_containers", "initContainers")


def image_options(spec: ImagesSpec) -> pulumi.ResourceOptions:
    """Return options whose resources, and the resources below them, get their images and pull
    secrets from `spec`.
    """

    def transform(resource: pulumi.ResourceTransformationArgs) -> None:
        if resource.type_.startswith("kubernetes:"):
            _rewrite(resource.props, spec)

    return (
        pulumi.ResourceOptions(transformations=[transform])
        if spec.model_fields_set
        else pulumi.ResourceOptions()
    )


def _rewrite(value: object, spec: ImagesSpec) -> None:
    if isinstance(value, list | tuple):
        for each in value:
            _rewrite(each, spec)
    elif isinstance(value, dict):
        for container in (each for key in _CONTAINERS for each in value.get(key) or ()):
            if spec.mirror is not None and isinstance(image := container.get("image"), str):
                container["image"] = mirrored(image, spec.mirror)
        for volume in value.get("volumes") or ():
            image = volume.get("image") if isinstance(volume, dict) else None
            if spec.mirror is not None and isinstance(image, dict) and "reference" in image:
                image["reference"] = mirrored(image["reference"], spec.mirror)
        if spec.image_pull_secrets and isinstance(value.get("containers"), list):
            _add_secrets(value, spec)
        for each in list(value.values()):
            _rewrite(each, spec)


def _add_secrets(pod: dict[str, Any], spec: ImagesSpec) -> None:
    # Typed resources have the SDK's names of fields, custom resources and extra objects those of
    # the API.
    key = "image_pull_secrets" if any("_" in name for name in pod) else "imagePullSecrets"
    existing = pod.get(key) or []
    names = {each.get("name") for each in existing}
    if new := [{"name": each.name} for each in spec.image_pull_secrets if each.name not in names]:
        pod[key] = [*existing, *new]
