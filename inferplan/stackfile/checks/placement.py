"""Checks that models fit their pools: accelerators, memory, engine, replicas, and terms on nodes
and other models.
"""

from collections.abc import Iterator, Mapping

from inferplan.components.handles import NodeTarget
from inferplan.components.nodes.pool import Pool
from inferplan.components.platforms.platform import Cluster
from inferplan.components.serving.demand import (
    accelerators_by_pool,
    demand_of,
    scattered_accelerators,
)
from inferplan.components.serving.hardware import default_image_of
from inferplan.components.serving.spec import ModelSpec
from inferplan.documents.errors import SpecError
from inferplan.hardware.accelerators import Accelerator, vendor_of_image
from inferplan.kube.names import HUGEPAGES, ZONE_LABEL
from inferplan.kube.quantity import bytes_of, millicores_of
from inferplan.stackfile.checks import sharing
from inferplan.stackfile.checks.located import below, unknown
from inferplan.stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    yield from sharing.consumer_errors(settings)
    yield from sharing.claim_errors(settings)
    targets = {name: pool.target(name) for name, pool in settings.node_pools.items()}
    requested, totals = dict.fromkeys(targets, 0), accelerators_by_pool(settings.models.values())
    for name, model in settings.models.items():
        yield from below(
            ("models", name), _model_errors(settings, name, targets, requested, totals)
        )
        yield from below(("models", name, "affinity"), _affinity_errors(settings, name, model))


def _model_errors(
    settings: StackSettings,
    name: str,
    targets: dict[str, NodeTarget],
    requested: dict[str, int],
    totals: Mapping[str, int],
) -> Iterator[SpecError]:
    """Check one model; `requested` counts the accelerators of the models before it by pool, and
    then its own, `totals` those of all.
    """
    model = settings.models[name]
    target = targets.get(model.pool)
    if target is None:
        yield unknown(("pool",), model.pool, "pool", targets, "nodePools")
        return
    accelerator = target.accelerator
    if accelerator is None:
        yield from _on_cpus(model, target, targets)
        return
    yield from _mixed_images(settings, name, model, targets)
    own = [*_engine(model, target, accelerator), *_accelerators(model, target, accelerator)]
    yield from own
    if own:
        return
    yield from _memory(model, accelerator)
    yield from sharing.memory_errors(model, settings.node_pools[model.pool])
    yield from _node(model, target)
    own_total = model.accelerators_per_pod * model.pods * model.max_replicas
    available = target.nodes * target.capacity.accelerators
    if requested[model.pool] + own_total > available:
        yield _over_capacity(model, own_total, requested[model.pool], available)
        # The models after it are judged without it: it has its own error.
        return
    requested[model.pool] += own_total
    shared = list(model.shared_pool_errors(target, totals[model.pool] - model.most_accelerators))
    yield from shared or room_for_surge(settings.models, name, target)


def _mixed_images(
    settings: StackSettings, name: str, model: ModelSpec, targets: Mapping[str, NodeTarget]
) -> Iterator[SpecError]:
    """Check that both sides of a split model have one image, at the side that names its pool."""
    peer = settings.models.get(model.peer(name) or "")
    if peer is None or peer.pool not in targets or len(model.written_at(name, ("pool",))) < 3:
        return
    own, other = (
        each.image or default_image_of(each, targets[each.pool]) for each in (model, peer)
    )
    if own is not None and other is not None and own != other:
        yield SpecError(
            ("pool",),
            f"Pool {model.pool!r} has image {own} for {model.engine}, and the other side has {other}"
            f" on pool {peer.pool!r}. Only servers of one image exchange KV caches. Use a pool with"
            " the same accelerators, or name one image for both under image.",
        )


def _on_cpus(
    model: ModelSpec, target: NodeTarget, targets: Mapping[str, NodeTarget]
) -> Iterator[SpecError]:
    """Check a model on a pool without accelerators."""
    if model.cpu_build is None:
        suitable = sorted(name for name, each in targets.items() if each.accelerator is not None)
        remedy = (
            f"Use one of {', '.join(suitable)}."
            if suitable
            else "Add a pool with an accelerator under nodePools."
        )
        yield SpecError(
            ("pool",),
            f"Pool {model.pool!r} has no accelerator, but {model.engine} requires one. {remedy}",
        )
        return
    vendor = None if model.image is None else vendor_of_image(model.image)
    if vendor is not None:
        yield SpecError(
            ("image",),
            f"{model.image!r} is built for accelerators of {vendor}, but pool {model.pool!r} has"
            " none. Use an image of the engine's build for CPUs, or remove image.",
        )
    yield from model.errors_on(target)
    yield from _node(model, target)


def _over_capacity(model: ModelSpec, own: int, others: int, available: int) -> SpecError:
    """Return the error of a model that requests `own` accelerators next to the `others` of the
    models before it.
    """
    each, field = model.accelerators_per_pod * model.pods, "max" if model.scaling else "replicas"
    counts = f"{model.max_replicas} x {each} = {own} accelerators"
    most = (available - others) // each
    if own > available:
        problem = f"{counts} do not fit pool {model.pool!r}, which has {available}"
    else:
        problem = (
            f"{counts} do not fit pool {model.pool!r}, which has {available}, {others} of them for"
            " models above"
        )
    remedy = (
        f"Lower {field} to at most {most}, or enlarge the pool."
        if most
        else "Enlarge the pool, or use another one."
    )
    return SpecError(("replicas", *(("max",) if model.scaling else ())), f"{problem}. {remedy}")


def room_for_surge(
    models: Mapping[str, ModelSpec], name: str, target: NodeTarget
) -> Iterator[SpecError]:
    """Check that free accelerators fit a successor wherever the pods of other models run;
    `shared_pool_errors` counts them.
    """
    model = models[name]
    if model.rollout != "surge":
        return
    needed, total = model.accelerators_per_pod, target.nodes * target.capacity.accelerators
    spare = total - accelerators_by_pool(models.values())[model.pool]
    if spare - scattered_accelerators(models, name, target.nodes) <= needed * (model.pods - 1):
        yield SpecError(
            ("rollout",),
            f"surge starts a successor on a node with {needed} free accelerators. Models that"
            f" request other numbers share pool {model.pool!r}, so its {spare} free accelerators"
            " can be on nodes with fewer: it would wait indefinitely. Use inPlace, another pool,"
            " or enlarge the pool",
        )


def _engine(model: ModelSpec, target: NodeTarget, accelerator: Accelerator) -> Iterator[SpecError]:
    support = accelerator.engine(model.engine)
    if support.refusal is not None:
        problem = f"Engine {model.engine} does not run on {accelerator.name} (pool {model.pool})"
        yield SpecError(("engine",), f"{problem}: {support.refusal}")
    elif support.image is None and model.image is None:
        yield SpecError(
            ("engine",),
            f"There is no default image for {model.engine} on {accelerator.name}. Set image.",
        )
    if model.image is not None:
        yield from _image(model.image, accelerator, model.engine)
    yield from model.errors_on(target)


def _image(image: str, accelerator: Accelerator, engine: str) -> Iterator[SpecError]:
    vendor = vendor_of_image(image)
    if vendor not in (None, accelerator.vendor.name):
        problem = (
            f"{image!r} is built for accelerators of {vendor}, but {accelerator.name} is made by"
            f" {accelerator.vendor.name}."
        )
        yield SpecError(
            ("image",), f"{problem} Use an image for {accelerator.vendor.name}, or remove image."
        )
    elif (unpaired := accelerator.unpaired(engine, image)) is not None:
        yield SpecError(("image",), unpaired)


def _accelerators(
    model: ModelSpec, target: NodeTarget, accelerator: Accelerator
) -> Iterator[SpecError]:
    requested, available = model.accelerators_per_pod, target.capacity.accelerators
    path = (model.accelerators_field,)
    if accelerator.divided and requested > 1:
        problem = (
            f"A replica requests {requested} accelerators, but pool {model.pool!r} has"
            f" {'shares of accelerators' if accelerator.sharers > 1 else 'MIG slices'}, which cannot"
            " work together."
        )
        yield SpecError(path, f"{problem} Use 1, or a pool of whole accelerators.")
    elif requested > available:
        each = "A replica" if model.pods == 1 else f"Each of the {model.pods} pods of a replica"
        sharded = model.accelerators_field != "accelerators"
        lower = (
            "Lower tensorParallelSize x pipelineParallelSize"
            if sharded
            else f"Set accelerators to at most {available}"
        )
        yield SpecError(
            path,
            f"{each} requests {requested} accelerators, but a node of pool {model.pool!r} has"
            f" {available}. {lower}, {'raise nnodes, ' if model.can_span_nodes else ''}or use a"
            " pool of larger nodes.",
        )
    elif available % requested:
        divisors = ", ".join(
            str(count) for count in range(1, available + 1) if available % count == 0
        )
        problem = (
            f"Replicas of {requested} accelerators leave {available % requested} of the {available}"
            " of each node unused"
        )
        yield SpecError(path, f"{problem} (pool {model.pool!r}). Use one of {divisors}.")


def _memory(model: ModelSpec, accelerator: Accelerator) -> Iterator[SpecError]:
    if model.stored_files is None or model.stored_files.size is None:
        return
    count = model.accelerators_per_pod * model.pods
    if bytes_of(model.stored_files.size) > accelerator.memory_bytes * count * model.usable_share:
        yield SpecError(
            (model.stored_files_field, "size"),
            f"{model.stored_files.size} of weights do not fit into {count} x"
            f" {accelerator.memory_bytes / 2**30:.0f}Gi of {accelerator.name}"
            f" ({model.usable_share:.0%} is usable). Raise tensorParallelSize, quantize, or use a"
            " pool with more memory.",
        )


def _node(model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    demand, capacity = demand_of(model, model.accelerators_per_pod, target), target.capacity
    replicas = max(1, capacity.accelerators // model.accelerators_per_pod)
    large_pages, own = bytes_of(demand.get(HUGEPAGES, "0")), model.resources
    limits = (
        ("cpu", "cpu", own.cpu, millicores_of(demand["cpu"]), capacity.cpu_millicores, "m"),
        (
            "memory",
            "memory",
            own.memory,
            bytes_of(demand["memory"]) // 2**20,
            capacity.memory_bytes // 2**20,
            "Mi",
        ),
        (
            HUGEPAGES,
            "hugepages2Mi",
            own.hugepages2_mi,
            large_pages // 2**20,
            capacity.hugepages_2mi_bytes // 2**20,
            "Mi",
        ),
    )
    for resource, field, written, requested, available, unit in limits:
        if requested > available:
            problem = (
                f"A replica requests {requested}{unit} of {resource}, but a node of pool"
                f" {model.pool!r} has {available}{unit}."
            )
            yield SpecError(("resources", field), f"{problem} Lower the request.")
        elif requested * replicas > available and written is None:
            yield SpecError(
                ("pool",),
                f"A node of pool {model.pool!r} has accelerators for {replicas} replicas, but not"
                f" enough {resource} ({replicas} x {requested}{unit} > {available}{unit}). Set"
                f" resources.{field} to at most {available // replicas}{unit}.",
            )
    if bytes_of(model.shared_memory) > bytes_of(demand["memory"]):
        problem = (
            f"{model.shared_memory} of shared memory exceeds the memory of a replica"
            f" ({demand['memory']}), which includes it."
        )
        yield SpecError(("sharedMemory",), f"{problem} Lower it, or raise resources.memory.")


def _affinity_errors(settings: StackSettings, name: str, model: ModelSpec) -> Iterator[SpecError]:
    yield from _named_models(settings, name, model)
    pool = settings.node_pools.get(model.pool)
    if pool is not None:
        yield from model.affinity.errors_on(pool.target(model.pool))
        yield from _zones(model, pool, settings.cluster)


def _zones(model: ModelSpec, pool: Pool, cluster: Cluster) -> Iterator[SpecError]:
    """Check the zones that the model requires against those of the pool, where they are known."""
    if cluster.cloud is not None and not cluster.location.zones:
        return
    zones = pool.location(cluster.location).zones
    for index, term in enumerate(model.affinity.required_nodes):
        if (
            zones
            and term.key == ZONE_LABEL
            and term.operator == "In"
            and not set(term.values) & set(zones)
        ):
            problem = f"No node of pool {model.pool!r} is in {' or '.join(term.values)}."
            yield SpecError(
                ("requiredNodes", index, "values"),
                f"{problem} Zones of the pool: {', '.join(zones)}.",
            )


def _named_models(settings: StackSettings, name: str, model: ModelSpec) -> Iterator[SpecError]:
    for field, named in (
        ("podAffinity", model.affinity.pod_affinity),
        ("podAntiAffinity", model.affinity.pod_anti_affinity),
    ):
        for index, other in enumerate(named):
            path, theirs = (field, index), settings.models.get(other)
            if theirs is None:
                yield unknown(path, other, "model", settings.models, "models")
            elif other == name and field == "podAffinity":
                problem = (
                    "A model cannot require its own pods on the node, because the first pod would"
                    " never start."
                )
                yield SpecError(path, f"{problem} Remove it.")
            elif field == "podAffinity" and theirs.pool != model.pool:
                problem = (
                    f"{other} runs on pool {theirs.pool!r} and {name} on {model.pool!r}, so they"
                    " cannot share a node."
                )
                yield SpecError(path, f"{problem} Use one pool for both.")
            elif field == "podAntiAffinity" and other in model.affinity.pod_affinity:
                yield SpecError(
                    path,
                    f"Model {other} is both required and excluded on the node. Remove it from one"
                    " of the two lists.",
                )
