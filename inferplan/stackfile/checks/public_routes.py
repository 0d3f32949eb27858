"""Checks public routes: their models and consumers exist, servers accept their names, and no name
means two things.
"""

from collections.abc import Iterator

from inferplan.components.gateway.keys import server_key_ref
from inferplan.components.gateway.one_address import names_at_one_address
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.serving.spec import MODEL_SPECS, engine_of
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.stackfile.checks.located import unknown
from inferplan.stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    gateway = settings.gateway
    if settings.routes and gateway is None:
        yield SpecError(
            ("routes",), "Missing gateway, which serves routes. Add gateway, or remove routes."
        )
    elif settings.routes and gateway is not None and not gateway.has_public_routes:
        message = (
            f"implementation {gateway.implementation} cannot read a model's name from request"
            " bodies. Use implementation nginx."
        )
        yield SpecError(("routes",), message)
    if "v1" in settings.routes:
        yield SpecError(
            ("routes", "v1"),
            "'v1' is reserved for the address /v1 of every model. Rename the route.",
        )
    # nginx compares names without regard to case.
    taken: dict[str, KeyPath] = {name.lower(): ("models", name) for name in settings.models}
    yield from _adapters(settings, taken)
    for name, route in settings.routes.items():
        yield from _models(settings, name, route)
        for index, consumer in enumerate(route.consumers):
            if consumer not in settings.consumers:
                yield unknown(
                    ("routes", name, "consumers", index),
                    consumer,
                    "consumer",
                    settings.consumers,
                    "consumers",
                )
        paths: list[tuple[str, KeyPath]] = [(name, ("routes", name))]
        paths += [
            (alias, ("routes", name, "aliases", index)) for index, alias in enumerate(route.aliases)
        ]
        for public, path in paths:
            yield from _only_here(public, path, taken)


def _only_here(public: str, path: KeyPath, taken: dict[str, KeyPath]) -> Iterator[SpecError]:
    if (owner := taken.setdefault(public.lower(), path)) != path:
        yield SpecError(
            path,
            f"The name {public!r} is already used by {'.'.join(map(str, owner))}. Use another name.",
        )


def _adapters(settings: StackSettings, taken: dict[str, KeyPath]) -> Iterator[SpecError]:
    """Yield errors of adapters with consumers of their own, whose names only /v1 tells apart."""
    gateway = settings.gateway
    for name, model in settings.called_models.items():
        if model.adapter_consumers:
            yield from _named_once(settings, name)
        for adapter, consumers in model.adapter_consumers.items():
            path = ("models", name, "loraConsumers", adapter)
            if gateway is None or not gateway.has_public_routes:
                yield SpecError(
                    path,
                    "Only the nginx gateway tells the names of adapters apart, and this stack has"
                    " none. Use gateway: {implementation: nginx, ...}, or remove loraConsumers.",
                )
            yield from _only_here(adapter, path, taken)
            for index, consumer in enumerate(consumers):
                if consumer not in settings.consumers:
                    yield unknown(
                        (*path, index), consumer, "consumer", settings.consumers, "consumers"
                    )


def _named_once(settings: StackSettings, name: str) -> Iterator[SpecError]:
    """Yield an error if no name at /v1 is that of model `name` alone."""
    endpoints = [
        engine_of(model).endpoint(each, model, server_key_ref(each))
        for each, model in settings.called_models.items()
    ]
    names = names_at_one_address(endpoints, settings.public_routes)
    own = next(each.served_names[0] for each in endpoints if each.model == name)
    if names.get(own) != name:
        yield SpecError(
            ("models", name, "loraConsumers"),
            f"With loraConsumers the model is called at /v1 only, and its name there, {own!r}, is also"
            " the name of another model or route. Give the model another servedModelName.",
        )


def _models(settings: StackSettings, name: str, route: RouteSpec) -> Iterator[SpecError]:
    listed: list[tuple[str, KeyPath]] = [
        (each, ("routes", name, "backends", each)) for each in route.backends
    ]
    if route.fallback is not None:
        listed.append((route.fallback, ("routes", name, "fallback")))
    for each, path in listed:
        model = settings.called_models.get(each)
        if model is None:
            yield unknown(path, each, "model", settings.called_models, "models")
        elif not model.takes_public_names:
            engines = " or ".join(
                engine for engine, spec in MODEL_SPECS.items() if spec.takes_public_names
            )
            problem = (
                f"{each} runs on engine {model.engine}, whose servers cannot be told the name of a"
                " route."
            )
            yield SpecError(path, f"{problem} Use a model of engine {engines}.")
