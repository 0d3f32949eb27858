"""What no spec can judge alone: whether the parts of a stack fit each other. Pure, and all errors at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.spec import SpecError

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def check(settings: StackSettings, *, has_key_seed: bool) -> Iterator[SpecError]:
    """Every error between the parts of a stack, in the order of the stack file's sections.

    `has_key_seed` says whether the stack holds an `apiKeySeed`; its value is nobody's business here.
    """
    from stackfile.checks import access, affinity, aws, benchmark, data, names, placement, queues
    from stackfile.checks import artifacts as beside

    yield from names.errors(settings)
    yield from placement.errors(settings)
    yield from affinity.errors(settings)
    yield from queues.errors(settings)
    yield from data.errors(settings)
    yield from beside.errors(settings)
    yield from aws.errors(settings)
    yield from benchmark.errors(settings)
    yield from access.errors(settings, has_key_seed=has_key_seed)
