"""The images of a stack that the image catalogue describes, and those that it does not.

It pulls nothing: a rehearsal replaces kubelets and images, so it proves nothing about what runs inside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from images.catalogue import facts_of, family_of

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def named_images(settings: StackSettings) -> Iterator[tuple[str, str]]:
    """Yield the images in the stack file, each with its path. Every other image is in the catalogue."""
    for name, model in settings.models.items():
        if model.image is not None:
            yield f"models.{name}.image", model.image
        if model.preheat is not None:
            for field in ("image", "rclone_image"):
                if field in model.preheat.model_fields_set and (image := getattr(model.preheat, field)) is not None:
                    yield f"models.{name}.preheat.{'image' if field == 'image' else 'rcloneImage'}", image
    for field in ("gateway", "benchmark"):
        part = getattr(settings, field)
        if part is not None and "image" in part.model_fields_set:
            yield f"{field}.image", part.image


def image_evidence(settings: StackSettings) -> str:
    """Return one line about the stack's images, such as `images: all from the catalogue`."""
    other, unknown = [], []
    for path, image in named_images(settings):
        if facts_of(image) is not None:
            continue
        family = family_of(image)
        if family is None:
            unknown.append(f"{path} ({image})")
        else:
            other.append(f"{path} ({image}, judged as {family.image})")
    if not other and not unknown:
        return "images: every container rests on the image catalogue; none was pulled or started"
    parts = ["images: every container rests on the image catalogue"]
    if unknown:
        parts.append(f"but nothing is known about {', '.join(unknown)}")
    if other:
        parts.append(f"{'and' if unknown else 'but'} another release of a known image is {', '.join(other)}")
    return f"{' '.join(parts)}; none was pulled or started"
