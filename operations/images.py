"""The images that a stack needs: which image, its upstream name, and the resources whose pods pull it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations.workspace import Workspace
    from rehearsal.engine.wire.recording import Recording


@dataclass(frozen=True)
class NeededImage:
    """One image of a stack. `source` is its name outside of the stack's mirror."""

    image: str
    source: str
    used_by: tuple[str, ...]


def images_of(recording: Recording, mirror: str | None) -> list[NeededImage]:
    """Every image that pods of the plan pull, sorted by name."""
    from images.mirror import upstream
    from operations.policy_check import stack_of
    from policies.subjects.pods import IMAGES

    users: dict[str, set[str]] = {}
    for resource in stack_of(recording):
        for place in resource.parts(IMAGES):
            users.setdefault(place.text(), set()).add(f"{resource.type.rpartition(':')[2]}/{resource.name}")
    return [NeededImage(image, upstream(image, mirror), tuple(sorted(names))) for image, names in sorted(users.items())]


def needed_images(workspace: Workspace) -> list[NeededImage]:
    """The images of the plan of `workspace`."""
    return images_of(workspace.record(), workspace.settings.images.mirror)
