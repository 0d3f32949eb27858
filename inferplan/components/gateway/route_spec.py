"""Public routes: names at /v1 that stand for one or several models, so that a name moves between
models without a change of clients.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints

from inferplan.components.spec import LISTED_ONCE, DnsLabel, Spec, rule
from inferplan.kube.facts import RouteFacts

PublicName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$", max_length=128)
]


class RouteSpec(Spec):
    """A public name of models. Move requests by changing weights; the header `X-Inferplan-Backend:
    <model>` selects one backend.
    """

    # The facts show shares instead of weights.
    stated: ClassVar[Mapping[str, Any]] = {"backends": True}

    backends: Annotated[
        dict[DnsLabel, Annotated[int, Field(strict=True, ge=0, le=1000)]],
        Field(min_length=1, max_length=16),
    ]
    """The models that answer, each with its share of the requests as a weight. 0 leaves a model to
    requests with the header only.
    """
    aliases: Annotated[list[PublicName], Field(max_length=16), LISTED_ONCE] = []
    """Further names of the route."""
    fallback: DnsLabel | None = None
    """The model that answers if no replica of the selected one is ready. Default: none."""
    consumers: Annotated[list[DnsLabel], LISTED_ONCE] = []
    """Consumers that may call the route, also if they may not call its models by name. Default:
    none.
    """

    @rule
    def _require_weight(self) -> Iterator[str]:
        if not any(self.backends.values()):
            yield (
                "Every weight of backends is 0, so no model would answer. Give one model a weight"
                " from 1 to 1000."
            )

    @property
    def shares(self) -> dict[str, float]:
        """Return the percentage of requests of each model, with two decimals; models with weight 0
        are left out.
        """
        total = sum(self.backends.values())
        return {
            name: max(0.01, round(100 * weight / total, 2))
            for name, weight in sorted(self.backends.items())
            if weight
        }

    @property
    def models(self) -> list[str]:
        """Return every model that may answer."""
        return sorted({*self.backends, *([] if self.fallback is None else [self.fallback])})

    @property
    def facts(self) -> RouteFacts:
        return self.facts_as(
            RouteFacts,
            consumers=sorted(self.consumers),
            shares=self.shares,
            testing=sorted({*self.backends} - {*self.shares}),
        )


def names_of(routes: Mapping[str, RouteSpec]) -> Iterator[tuple[str, str]]:
    """Yield each public name and alias, with the name of its route."""
    for route, spec in sorted(routes.items()):
        yield from ((name, route) for name in (route, *sorted(spec.aliases)))


def names_for(model: str, routes: Mapping[str, RouteSpec]) -> tuple[str, ...]:
    """Return the public names that requests to `model` may have in their bodies."""
    return tuple(name for name, route in names_of(routes) if model in routes[route].models)
