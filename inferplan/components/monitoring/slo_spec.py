"""The objective of a model's users, which only predictions and alerts read."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.spec import Spec, rule
from inferplan.kube.durations import milliseconds_of

Duration = Annotated[
    str,
    StringConstraints(max_length=20),
    AfterValidator(lambda text: milliseconds_of(text) and text),
    Field(description="A time with its unit: ms or s."),
]


class SloSpec(Spec):
    """The objective: times that at least `percentile` percent of the requests keep, and the percent
    of requests that succeed.
    """

    ttft: Duration | None = None
    """Longest time to the first token of an answer."""
    itl: Duration | None = None
    """Longest time between two tokens of an answer, as the mean of one answer."""
    percentile: Annotated[int, Field(ge=50, le=99)] = 95
    """Percent of the requests that keep the times."""
    availability: Annotated[float, Field(ge=50, lt=100)] | None = None
    """Percent of the requests that do not fail on the server's side. Alerts of `monitoring.rules`
    watch it; predictions do not.
    """

    @rule
    def _has_an_objective(self) -> Iterator[str]:
        if self.ttft is None and self.itl is None and self.availability is None:
            yield "An objective needs ttft, itl or availability. Add, for example, ttft: 800ms"
