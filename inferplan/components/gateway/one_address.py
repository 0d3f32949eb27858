"""The address /v1 of every model: which name in a body means which model, and what each consumer
may call.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from inferplan.components.gateway.body_patterns import (
    DEEPEST,
    LONGEST_NAME,
    form_pattern,
    json_pattern,
)
from inferplan.components.gateway.memory import BODIES, CHUNKED, LARGEST_BODY_BYTES, share
from inferplan.components.gateway.route_spec import RouteSpec, names_of
from inferplan.components.gateway.routes import NAMED_IN_BODIES
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import Endpoint
from inferplan.kube.quantity import bytes_of

_KIND = "openai"
# nginx reads at most 4,096 bytes as one parameter.
_LONGEST_PARAMETER = 3000


def one_address_site(
    spec: NginxGatewaySpec,
    endpoints: Sequence[Endpoint],
    consumers: Mapping[str, object],
    public_routes: Mapping[str, RouteSpec],
) -> dict[str, object]:
    """Return the values of the templates about /v1; it exists if a model speaks the OpenAI
    protocol.
    """
    speaking = _speaking(endpoints)
    if not speaking:
        return {
            "one_address": False,
            "capture": "model",
            "subject": "model",
            "named_in_bodies": (),
            "public_routes": (),
            "falls_back": False,
        }
    subjects = names_at_one_address(speaking, public_routes)
    grants = {each.model: each.consumers for each in speaking} | {
        name: each.consumers for name, each in public_routes.items()
    }
    listings, listed = _listings(subjects, grants, consumers)
    return {
        "one_address": True,
        "capture": "in_path",
        # Without routes every subject is a model.
        "subject": "subject" if public_routes else "model",
        "named_in_bodies": NAMED_IN_BODIES,
        "json_pattern": _quoted(json_pattern("json_name")),
        "form_pattern": _quoted(form_pattern("form_name", "body_boundary")),
        "deepest": DEEPEST,
        "names": [
            (spelling, subject)
            for name, subject in subjects.items()
            for spelling in sorted({name, name.replace("/", "\\\\/")})
        ],
        "public_routes": sorted(public_routes.items()),
        "by_name_only": [each.model for each in speaking if each.by_name_only],
        "falls_back": any(each.fallback for each in public_routes.values()),
        "bodies": BODIES,
        "share": lambda slots: share(slots, len(consumers)),
        "one_address_bytes": min(bytes_of(spec.max_body_size), LARGEST_BODY_BYTES),
        "chunked_bytes": min(bytes_of(spec.max_body_size), BODIES[CHUNKED].largest),
        "longest_name": LONGEST_NAME,
        "listings": listings,
        "listed": listed,
        "owner": _OWNER,
    }


_OWNER = "inferplan"


def _speaking(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    return [
        each for each in endpoints if any(protocol.kind == _KIND for protocol in each.protocols)
    ]


def names_at_one_address(
    endpoints: Sequence[Endpoint], public_routes: Mapping[str, RouteSpec]
) -> dict[str, str]:
    """Return the route or model of each name that a body may have: names of routes, and names that
    the server of one model accepts.
    """
    models: dict[str, set[str]] = {}
    endpoints = _speaking(endpoints)
    for endpoint in endpoints:
        for name in endpoint.served_names:
            # nginx looks names up without regard to case.
            models.setdefault(name.lower(), set()).add(endpoint.model)
    of_routes = dict(names_of(public_routes))
    taken = {name.lower() for name in of_routes} | {
        name for name, owners in models.items() if len(owners) > 1
    }
    names = {
        name: each.model
        for each in endpoints
        for name in each.served_names
        if name.lower() not in taken
    }
    return dict(sorted((names | of_routes).items()))


def _listings(
    subjects: Mapping[str, str],
    grants: Mapping[str, Sequence[str]],
    consumers: Mapping[str, object],
) -> tuple[list[tuple[str, int]], list[list[tuple[int, str]]]]:
    """Return the number of each consumer's list, and the lists in parts that nginx can read."""
    numbers: dict[tuple[str, ...], int] = {}
    listings = []
    for consumer in sorted(consumers):
        names = tuple(name for name, subject in subjects.items() if consumer in grants[subject])
        if names:
            listings.append((consumer, numbers.setdefault(names, len(numbers) + 1)))
    parts: list[list[tuple[int, str]]] = []
    for names, number in numbers.items():
        for text, place in zip(_parts(names), count()):
            if place == len(parts):
                parts.append([])
            parts[place].append((number, text))
    return listings, parts


def _parts(names: Sequence[str]) -> Iterator[str]:
    text = ""
    for name in names:
        entry = json.dumps(
            {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}, separators=(",", ":")
        )
        if len(text) + len(entry) > _LONGEST_PARAMETER:
            yield text
            text = ""
        text += f"{'' if name == names[0] else ','}{entry}"
    yield text


def _quoted(pattern: str) -> str:
    """Return `pattern` as it is written in nginx's configuration, which reads backslashes itself."""
    return pattern.replace("\\", "\\\\")
