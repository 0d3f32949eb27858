"""What no spec can judge alone: whether the parts of a stack fit each other. Pure, and all faults at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.spec import Fault

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def check(settings: StackSettings, *, has_key_seed: bool) -> Iterator[Fault]:
    """Every fault between the parts of a stack, in the order of the stack file's sections.

    `has_key_seed` says whether the stack holds an `apiKeySeed`; its value is nobody's business here.
    """
    from stackfile.checks import access, affinity, aws, benchmark, data, names, placement, queues
    from stackfile.checks import artifacts as beside

    yield from names.faults(settings)
    yield from placement.faults(settings)
    yield from affinity.faults(settings)
    yield from queues.faults(settings)
    yield from data.faults(settings)
    yield from beside.faults(settings)
    yield from aws.faults(settings)
    yield from benchmark.faults(settings)
    yield from access.faults(settings, has_key_seed=has_key_seed)
