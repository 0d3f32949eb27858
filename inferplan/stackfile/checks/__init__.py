"""Cross-checks between the sections of a stack. Pure, and all errors at once."""

from collections.abc import Iterator

from inferplan.documents.errors import SpecError
from inferplan.stackfile.checks import (
    access,
    capacity,
    data,
    egress,
    key_history,
    names,
    objects,
    paths,
    placement,
    public_routes,
    queues,
)
from inferplan.stackfile.stack import StackSettings


def check(settings: StackSettings, *, has_key_seed: bool) -> Iterator[SpecError]:
    """Check the sections of a stack against each other; `has_key_seed` says whether the stack has
    an `apiKeySeed`.
    """
    for error in _errors(settings, has_key_seed=has_key_seed):
        yield SpecError(settings.written_at(error.path), error.message)


def _errors(settings: StackSettings, *, has_key_seed: bool) -> Iterator[SpecError]:
    yield from names.errors(settings)
    yield from placement.errors(settings)
    yield from capacity.errors(settings)
    yield from queues.errors(settings)
    yield from objects.errors(settings)
    yield from data.errors(settings)
    yield from egress.errors(settings)
    yield from paths.errors(settings)
    yield from settings.cluster.errors(settings)
    yield from public_routes.errors(settings)
    yield from access.errors(settings, has_key_seed=has_key_seed)
    yield from key_history.errors(settings)
