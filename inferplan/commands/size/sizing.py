"""Sizes a model of a stack: which pool, parallel size, number of replicas and batch limit meet its
objective, and what they cost.
"""

from collections.abc import Iterator

from inferplan.components.platforms.node_counts import shortages
from inferplan.documents.errors import unknown
from inferplan.errors import OperationError, RequestError
from inferplan.kube.facts import read
from inferplan.predict.sizing import Candidate, Places, candidates, gives_up
from inferplan.predict.traffic import placed
from inferplan.predict.words import seconds
from inferplan.workspace.workspace import Workspace

MOST = 4
COLUMNS = (
    "pool",
    "parallel size",
    "replicas",
    "requests at once",
    "TTFT",
    "ITL",
    "utilization",
    "a month",
    "gives up",
)


def sized(workspace: Workspace, model: str) -> tuple[list[Candidate], list[str]]:
    """The candidates of `model`, cheapest first, and the reasons of pools without one. Raises
    RequestError and OperationError.
    """
    settings = workspace.settings
    if model not in settings.models:
        raise RequestError(
            unknown(
                "model", model, settings.models, owner="this stack", remedy="Add one under models."
            )
        )
    spec = settings.models[model]
    if spec.traffic is None or spec.slo is None or spec.traffic.requests_per_second is None:
        raise RequestError(
            f"models.{model} has no"
            f" {'traffic' if spec.traffic is None else 'slo' if spec.slo is None else 'rate'} to"
            " size for. Add, for example, traffic: {requestsPerSecond: 6, inputTokens: 1024,"
            " outputTokens: 128} and slo: {ttft: 800ms, itl: 40ms}"
        )
    places = _places(workspace, model)
    matches, reasons = candidates(model, places)
    reasons += [
        f"{name}: nothing predicts models on CPUs; measure one with inferplan:benchmark"
        for name in settings.node_pools
        if name not in places
    ]
    if not matches:
        raise OperationError(
            f"No pool of {workspace.stack} meets the objective of {model}. Relax slo, or add a pool"
            " of other accelerators. " + "; ".join(reasons)
        )
    return matches, reasons


def _places(workspace: Workspace, model: str) -> Places:
    spec, subjects = workspace.settings.models[model], read(workspace.record().outputs) or {}
    facts, places = placed(subjects["model", model], workspace.root), {}
    for name, pool in workspace.settings.node_pools.items():
        if (accelerator := pool.target(name).accelerator) is not None:
            batching = spec.batching(accelerator)
            document = (
                {} if batching is None else batching.document(accelerator.engine(spec.engine).image)
            )
            places[name] = (
                {**facts, "pool": name, "batching": document or facts["batching"]},
                subjects["pool", name],
            )
    return places


def lines_to_paste(workspace: Workspace, model: str, best: Candidate) -> Iterator[str]:
    """The lines of the stack file that `best` stands for, with the nodes that its pool lacks."""
    settings, spec = workspace.settings, workspace.settings.models[model]
    accelerator = settings.node_pools[best.pool].target(best.pool).accelerator
    batching = None if accelerator is None else spec.batching(accelerator)
    yield "  inferplan:models:"
    yield f"    {model}:"
    yield f"      pool: {best.pool}"
    yield f"      tensorParallelSize: {best.parallel}"
    yield f"      replicas: {best.replicas}"
    if best.sequences is not None and batching is not None:
        yield f"      {batching.sequences_field}: {best.sequences}"
    resized = spec.model_copy(
        update={"pool": best.pool, "tensor_parallel_size": best.parallel, "replicas": best.replicas}
    )
    for each in shortages(
        settings.cluster,
        settings.model_copy(update={"models": {**settings.models, model: resized}}),
    ):
        if each.pool == best.pool:
            pool = settings.node_pools[each.pool]
            yield "  inferplan:nodePools:"
            yield f"    {each.pool}:"
            yield f"      {pool.enlarged(each.needed) if each.grows else pool.sized(each.needed)}"


def rows_of(matches: list[Candidate]) -> Iterator[tuple[str, ...]]:
    """The best candidate and the next ones, with what each gives up."""
    for each in matches[:MOST]:
        speed = each.forecast.speed
        times = ("", "") if speed is None else (seconds(speed.ttft), seconds(speed.itl))
        price = "no price" if each.monthly is None else f"${each.monthly:,.0f}"
        limit = "default" if each.sequences is None else str(each.sequences)
        lost = "; ".join([*["the cheapest"] * (each is matches[0]), *gives_up(each, matches[0])])
        yield (
            each.pool,
            str(each.parallel),
            str(each.replicas),
            limit,
            *times,
            f"{each.forecast.utilization or 0:.0%}",
            price,
            lost,
        )
