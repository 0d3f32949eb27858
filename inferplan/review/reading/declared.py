"""The resources of a preview on one side of the change, as capacity and cost read them."""

from collections.abc import Iterator
from typing import Literal

from inferplan.capacity.declared import Declared
from inferplan.pulumi_engine.reading.events import STACK_TYPE
from inferplan.review.reading.preview import Preview

When = Literal["before", "after"]


def declared(preview: Preview, side: When) -> Iterator[Declared]:
    """The resources of `preview` on one side. A digest lists no unchanged ones; see `whole`."""
    for step in preview.steps:
        state = step.before if side == "before" else step.after
        if state is not None:
            # For the stack itself, its own statement counts.
            inputs = state.outputs if step.type == STACK_TYPE else state.inputs
            yield Declared(
                type=step.type, urn=step.urn, name=step.name, inputs=inputs, counted=state.pods
            )


def whole(preview: Preview) -> bool:
    """True if `preview` lists every resource of the stack, so that sums are complete."""
    return preview.form == "events" and not preview.incomplete
