"""The images that a stack needs."""

from dataclasses import dataclass

from inferplan.images.mirror import upstream
from inferplan.planning.policy_check import stack_of
from inferplan.policies.subjects.pods import IMAGES
from inferplan.pulumi_engine.recording import Recording


@dataclass(frozen=True)
class NeededImage:
    """One image of a stack. `source` is its name outside of the stack's mirror."""

    image: str
    source: str
    used_by: tuple[str, ...]


def images_of(recording: Recording, mirror: str | None) -> list[NeededImage]:
    users: dict[str, set[str]] = {}
    for resource in stack_of(recording):
        for place in resource.parts(IMAGES):
            users.setdefault(place.text(), set()).add(
                f"{resource.type.rpartition(':')[2]}/{resource.name}"
            )
    return [
        NeededImage(image, upstream(image, mirror), tuple(sorted(names)))
        for image, names in sorted(users.items())
    ]
