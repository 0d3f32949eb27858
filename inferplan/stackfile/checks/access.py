"""Checks access: known consumers, a gateway that checks their keys, a seed to derive the keys from,
and a benchmark that may call models.
"""

from collections.abc import Iterator

from inferplan.components.benchmark.spec import BenchmarkSpec
from inferplan.components.gateway.consumer_spec import token_budgets
from inferplan.components.gateway.spec import GatewaySpec
from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.stackfile.checks.located import unknown
from inferplan.stackfile.stack import StackSettings


def errors(settings: StackSettings, *, has_key_seed: bool) -> Iterator[SpecError]:
    if settings.benchmark is not None:
        yield from _benchmark(settings, settings.benchmark)
    for name, model in settings.models.items():
        for index, consumer in enumerate(model.consumers):
            if consumer not in settings.consumers:
                yield unknown(
                    ("models", name, "consumers", index),
                    consumer,
                    "consumer",
                    settings.consumers,
                    "consumers",
                )
    if settings.consumers and settings.gateway is None:
        yield SpecError(
            ("consumers",),
            "Missing gateway, which checks the keys of consumers. Add gateway, or remove"
            " consumers.",
        )
    yield from _unreachable_routers(settings)
    yield from _uncounted(settings)
    if settings.gateway is not None:
        yield from _unsupported(settings, settings.gateway)
    if (settings.models or settings.consumers) and not has_key_seed:
        yield SpecError(
            ("apiKeySeed",),
            "Missing required secret: keys of consumers and model servers are derived from it. "
            'Set it with: pulumi config set --secret apiKeySeed "$(openssl rand -hex 32)"',
        )


def _unreachable_routers(settings: StackSettings) -> Iterator[SpecError]:
    """Yield an error for each router that no gateway calls."""
    gateway = settings.gateway
    if gateway is not None and gateway.calls_routers:
        return
    instead = (
        "this stack has no gateway. Add gateway"
        if gateway is None
        else f"implementation {gateway.implementation} calls Services only. Use implementation nginx"
    )
    for name, model in settings.models.items():
        if model.routed_by is not None:
            fields = "router" if model.peer(name) is None else "prefill and decode"
            message = f"The gateway alone may call a router, and {instead}, or remove {fields}."
            yield SpecError(("models", name, fields.partition(" ")[0]), message)


def _unsupported(settings: StackSettings, gateway: GatewaySpec) -> Iterator[SpecError]:
    """Yield an error for each setting that the gateway's implementation cannot enforce."""
    implementation = f"implementation {gateway.implementation}"
    for name, model in settings.models.items():
        if not model.calls_are_few and not gateway.matches_paths_by_pattern:
            others = " or ".join(
                engine for engine, spec in MODEL_SPECS.items() if spec.calls_are_few
            )
            message = (
                f"{implementation} cannot list the calls of engine {model.engine}. Use engine"
                f" {others}, or implementation nginx."
            )
            yield SpecError(("models", name, "engine"), message)
    for name, consumer in settings.consumers.items():
        if consumer.expires and not gateway.enforces_expiry:
            message = (
                f"{implementation} cannot enforce expires. Use implementation nginx, or retire the"
                " key version instead."
            )
            yield SpecError(("consumers", name, "expires"), message)
        if "limits" in consumer.model_fields_set and not gateway.enforces_limits:
            message = (
                f"{implementation} cannot enforce limits. Use implementation nginx, or remove"
                " limits."
            )
            yield SpecError(("consumers", name, "limits"), message)


def _uncounted(settings: StackSettings) -> Iterator[SpecError]:
    """Yield an error for each budget of tokens with a model whose tokens are not counted."""
    for consumer in token_budgets(settings.consumers):
        callable_models = {
            name: consumer in each.consumers for name, each in settings.called_models.items()
        }
        for route in settings.public_routes.values():
            if consumer in route.consumers:
                callable_models |= dict.fromkeys(route.models, True)
        uncounted = [
            name
            for name, may_call in callable_models.items()
            if may_call and not getattr(settings.models.get(name), "logs_usage", True)
        ]
        for name in uncounted:
            model = settings.models[name]
            remedy = (
                f"Set models.{name}.usageLog: true"
                if hasattr(model, "usage_log")
                else f"Engine {model.engine} has no usage log. Remove tokensPerDay"
            )
            yield SpecError(
                ("consumers", consumer, "limits", "tokensPerDay"),
                f"The tokens of {name} are not counted, and {consumer} may call it. {remedy}, or"
                f" remove {consumer} from its consumers.",
            )


def _benchmark(settings: StackSettings, spec: BenchmarkSpec) -> Iterator[SpecError]:
    path, gateway = ("benchmark",), settings.gateway
    if gateway is None:
        yield SpecError(
            path, "Missing gateway, which the benchmark calls. Add gateway, or remove benchmark."
        )
    elif not gateway.runs_in_namespace:
        message = (
            f"implementation {gateway.implementation} runs outside the namespace of the benchmark."
            " Use implementation nginx."
        )
        yield SpecError(path, message)
    if spec.consumer not in settings.consumers:
        yield unknown(
            (*path, "consumer"), spec.consumer, "consumer", settings.consumers, "consumers"
        )
    for index, name in enumerate(spec.models):
        yield from _benchmarked_model(settings, spec, (*path, "models", index), name)
    yield from _tokenizer(settings, spec)


def _benchmarked_model(
    settings: StackSettings, spec: BenchmarkSpec, path: KeyPath, name: str
) -> Iterator[SpecError]:
    name, _, served = name.partition("/")
    model = settings.called_models.get(name)
    if model is None:
        yield unknown(path, name, "model", settings.called_models, "models")
    elif not model.takes_prompts or (served and served not in [text.model for text in model.texts]):
        name = f"{name}/{served}" if served else name
        reason = f": {model.why_no_prompts}" if model.why_no_prompts else ""
        allowed = (
            "A benchmark calls OpenAI APIs, and Triton models that require one TYPE_STRING input"
            " and at most max_tokens besides it"
        )
        yield SpecError(
            path,
            f"{name} does not take prompts{reason}. {allowed}. Make other inputs optional, or use"
            " another model.",
        )
    elif spec.consumer in settings.consumers and spec.consumer not in model.consumers:
        yield SpecError(
            path,
            f"Consumer {spec.consumer} may not call {name}. Add {spec.consumer} to"
            f" models.{name}.consumers.",
        )


def _tokenizer(settings: StackSettings, spec: BenchmarkSpec) -> Iterator[SpecError]:
    model, path = settings.called_models.get(spec.tokenizer), ("benchmark", "tokenizer")
    if model is None:
        yield unknown(path, spec.tokenizer, "model", settings.called_models, "models")
    elif model.weights is None:
        yield SpecError(
            path,
            f"{spec.tokenizer} has no weights, and the tokenizer is read from them. Use a model"
            " with weights.",
        )
    elif (
        model.preheat is None
        and (store := settings.storage.get(model.weights.store)) is not None
        and store.streamable
    ):
        problem = (
            f"The files of {spec.tokenizer} are in a bucket, but the tokenizer must be on a volume."
        )
        yield SpecError(path, f"{problem} Use a model with preheat.")
