"""Cards that are divided into slices by NVIDIA's Multi-Instance GPU: how many there are of a profile, and how large each is.

Every card of a pool is divided alike, into as many slices of the one profile as fit; who divides them is the nodes' owner.
Kubernetes then offers slices of a name of their own (the device plugin's strategy `mixed`), and no whole card.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints

from components.nodes.accelerators import Accelerator

_PROFILE = re.compile(r"^([1-7])g\.([0-9]{1,3})gb$")
# A card has 7 compute slices and 8 memory slices, from Ampere to Blackwell (NVIDIA MIG user guide).
_COMPUTE_SLICES, _MEMORY_SLICES = 7, 8
MigProfile = Annotated[
    str,
    StringConstraints(pattern=_PROFILE.pattern),
    Field(description="A MIG profile as NVIDIA spells it, such as 3g.40gb."),
]


def sliced(card: Accelerator, profile: str) -> Accelerator:
    """What Kubernetes offers of `card` once it is divided into slices of `profile`."""
    return replace(card, resource=f"nvidia.com/mig-{profile}", memory_bytes=_gigabytes(profile) * 2**30)


def slices_of(card: Accelerator, profile: str) -> int:
    """How many slices of `profile` one `card` holds."""
    compute = int(profile[0])
    whole = max(_gigabytes(each) for each in card.mig)
    memory = max(1, round(_gigabytes(profile) * _MEMORY_SLICES / whole))
    return min(_COMPUTE_SLICES // compute, _MEMORY_SLICES // memory)


def fault_of(card: Accelerator | None, profile: str) -> str | None:
    """Why `card` cannot be divided into slices of `profile`; None where it can."""
    if card is None:
        return f"mig is {profile} and the pool has no accelerator to divide; write accelerator too, or remove mig"
    if not card.mig:
        return f"mig is {profile} and {card.name} cannot be divided; remove mig, or name a card that can (A100, H100, H200, B200, ...)"
    if profile in card.mig:
        return None
    largest = max(card.mig, key=_gigabytes)
    size = "is larger than" if _gigabytes(profile) > _gigabytes(largest) else "is no profile of"
    return f"the slice {profile} {size} {card.name}, which is {largest} as a whole; use one of {', '.join(card.mig)}"


def _gigabytes(profile: str) -> int:
    return int(profile.partition(".")[2].removesuffix("gb"))
