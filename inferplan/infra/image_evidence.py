"""The images of a stack that the image catalogue describes, and those that it does not. Nothing is
pulled.
"""

from collections.abc import Iterator

from inferplan.components.spec import Spec
from inferplan.images.catalogue import facts_of, family_of
from inferplan.stackfile.stack import StackSettings


def image_evidence(settings: StackSettings) -> str:
    """Return one line about the stack's images, such as `images: all from the catalogue`."""
    others, unknown = [], []
    for path, image in _written_images(settings):
        family = family_of(image)
        if facts_of(image) is None and family is None:
            unknown.append(f"{path} ({image})")
        elif facts_of(image) is None and family is not None:
            others.append(f"{path} ({image}, judged as {family.image})")
    line = "images: every container rests on the image catalogue"
    if unknown:
        line += f" but nothing is known about {', '.join(unknown)}"
    if others:
        line += (
            f" {'and' if unknown else 'but'} another release of a known image is"
            f" {', '.join(others)}"
        )
    return f"{line}; none was pulled or started"


def _written_images(settings: StackSettings) -> Iterator[tuple[str, str]]:
    """Yield the images in the stack file, each with its path. Every other image is in the
    catalogue.
    """
    sections: list[tuple[str, Spec | None]] = []
    for name, model in settings.models.items():
        sections += [(f"models.{name}", model), (f"models.{name}.preheat", model.preheat)]
    for path, section in (
        *sections,
        ("gateway", settings.gateway),
        ("benchmark", settings.benchmark),
    ):
        for field, key in (("image", "image"), ("rclone_image", "rcloneImage")):
            if (
                section is not None
                and field in section.model_fields_set
                and (image := getattr(section, field)) is not None
            ):
                yield f"{path}.{key}", image
