"""Checks where files of models and artifacts come from and go to: stores must exist, be of a
supported kind and large enough.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from inferplan.components.naming import MAX_NAME, bounded
from inferplan.components.nodes.pool import Pool
from inferplan.components.preheat.spec import artifact_job
from inferplan.components.serving.spec import ModelSpec
from inferplan.components.storage.fields import Store
from inferplan.components.stores import WeightsSpec
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.kube.quantity import bytes_of
from inferplan.stackfile.checks.located import below, unknown
from inferplan.stackfile.stack import StackSettings

_GI = 2**30


def errors(settings: StackSettings) -> Iterator[SpecError]:
    yield from _node_disk_errors(settings)
    filled: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, model in settings.models.items():
        here, files = ("models", name), model.stored_files
        if files is not None:
            path = (*here, model.stored_files_field)
            yield from _source_errors(
                path,
                files,
                settings,
                "preheat.include and preheat.exclude",
                copied=model.preheat is not None,
            )
            if files.store in settings.storage and model.preheat is None:
                yield from _direct_errors(name, model, files.store, settings)
        for artifact, spec in model.artifacts.items():
            yield from _source_errors(
                (*here, "artifacts", artifact), spec, settings, "include and exclude", copied=True
            )
        yield from _target_errors(name, model, settings)
        if model.preheat is not None and files is not None and files.size is not None:
            artifacts = sum(
                bytes_of(each.size) for each in model.artifacts.values() if each.size is not None
            )
            filled[model.preheat.into].append((name, bytes_of(files.size) + artifacts))
    for store, models in filled.items():
        yield from _overfull(store, models, settings)
    yield from _artifact_name_errors(settings)


def _source_errors(
    here: KeyPath, files: WeightsSpec, settings: StackSettings, fields: str, *, copied: bool
) -> Iterator[SpecError]:
    """Check the store of `files` at `here`; `fields` select some of its files, and `copied` says
    that a preheat reads it.
    """
    store, source = files.store, settings.storage.get(files.store)
    if source is None:
        yield unknown((*here, "store"), store, "store", settings.storage, "storage")
        return
    if files.files and not source.takes_file_names:
        problem = f"files is only for stores of kind http, but {store!r} is of kind {source.kind}."
        yield SpecError((*here, "files"), f"{problem} Remove files, and select with {fields}.")
    yield from below(here, source.path_errors(files.path, files.revision))
    if copied and not source.copyable:
        problem = (
            f"{store!r} is of kind {source.kind}: pods mount it, and a preheat cannot copy it."
        )
        yield SpecError((*here, "store"), f"{problem} Remove preheat, and artifacts of this store.")
    if source.node_pool is not None and copied:
        problem = f"{store!r} is a disk of each node, and files cannot be copied from it."
        yield SpecError(
            (*here, "store"),
            f"{problem} Use a store of kind s3, http, huggingface, nfs, efs or pvc.",
        )


def _direct_errors(
    name: str, model: ModelSpec, store: str, settings: StackSettings
) -> Iterator[SpecError]:
    """Check a model whose engine reads `store` without a preheat."""
    path = ("models", name, model.stored_files_field, "store")
    source, pool = settings.storage[store], settings.node_pools.get(model.pool)
    vendor = None if pool is None else pool.vendor
    if source.pulled and pool is not None:
        yield from _disk_errors(name, model, pool)
    if source.is_volume:
        yield from _node_disk_pool_errors(name, model.pool, store, source, path)
        return
    problem = ""
    if not source.streamable:
        problem = f"is a store of kind {source.kind}, which engines cannot read directly"
    elif pool is not None and not (vendor and vendor.streams):
        problem = (
            f"is an {source.kind} store, but the images for {pool.accelerator or 'CPUs'} have no"
            " streaming loader"
        )
    elif not model.reads_buckets:
        problem = f"is an {source.kind} store, but {model.engine} reads this model from files"
    else:
        for variable in source.reader_variables:
            if variable in model.env:
                message = f"{variable} is also set by storage.{store}.caBundle. Remove one of them."
                yield SpecError(("models", name, "env", variable), message)
    if problem:
        yield SpecError(path, f"{store!r} {problem}. {_preheat_remedy(settings)}.")


def _disk_errors(name: str, model: ModelSpec, pool: Pool) -> Iterator[SpecError]:
    """Check that the disk of a node holds an image with the model's files: packed and unpacked."""
    files = model.stored_files
    size = bytes_of(files.size) if files is not None and files.size else 0
    disk = pool.capacity.ephemeral_storage_bytes
    if disk and 2 * size > disk:
        yield SpecError(
            ("models", name, model.stored_files_field, "size"),
            f"A node stores an image compressed and unpacked, {2 * size / _GI:.0f}Gi here, but the disk"
            f" of pool {model.pool!r} has {disk / _GI:.0f}Gi for pods. Enlarge the disk of its nodes,"
            " or use a store of kind nfs or s3 with a preheat.",
        )


def _preheat_remedy(settings: StackSettings) -> str:
    """Return the remedy that puts a model's files on a share: the preheat, and the share if there
    is none.
    """
    shares = sorted(name for name, spec in settings.storage.items() if spec.is_shared)
    if shares:
        return f"Add preheat: {{into: {shares[0]}}} to the model"
    return (
        "Add preheat: {into: shared} to the model, and to storage shared:"
        f" {settings.cluster.example_share}"
    )


def _target_errors(name: str, model: ModelSpec, settings: StackSettings) -> Iterator[SpecError]:
    if model.preheat is None:
        return
    path, store = ("models", name, "preheat", "into"), model.preheat.into
    target = settings.storage.get(store)
    if target is None:
        yield unknown(path, store, "store", settings.storage, "storage")
    elif not target.takes_preheats:
        volumes = sorted(each for each, spec in settings.storage.items() if spec.takes_preheats)
        remedy = f"Add to storage shared: {settings.cluster.example_share}, and preheat into it."
        if volumes:
            remedy = f"Use one of {', '.join(volumes)}."
        yield SpecError(
            path, f"{store!r} is a store of kind {target.kind}, which pods cannot mount. {remedy}"
        )
    elif target.node_pool is not None and model.builds_engines:
        problem = (
            f"{store!r} is a disk of each node, but this model writes files that other nodes read."
        )
        yield SpecError(path, f"{problem} Use a store of kind nfs, efs or pvc.")
    else:
        yield from _node_disk_pool_errors(name, model.pool, store, target, path)


def _overfull(
    store: str, models: list[tuple[str, int]], settings: StackSettings
) -> Iterator[SpecError]:
    target = settings.storage.get(store)
    if target is None or target.stated_capacity is None:
        return
    used = [0, *accumulate(size for _, size in models)]
    first = next(
        (index for index, total in enumerate(used) if total > bytes_of(target.stated_capacity)),
        None,
    )
    if first is not None:
        name = models[first - 1][0]
        model = settings.models[name]
        yield SpecError(
            ("models", name, model.stored_files_field, "size"),
            f"{model.stored_files and model.stored_files.size} exceeds the free space of store"
            f" {store!r}: its models need"
            f" {used[-1] / 2**30:.0f}Gi{'' if target.node_pool is None else ' on each node'}, and"
            f" its capacity is {target.stated_capacity}. Raise storage.{store}.capacity, or preheat"
            " fewer models into it.",
        )


def _node_disk_errors(settings: StackSettings) -> Iterator[SpecError]:
    for name, store in settings.storage.items():
        if store.node_pool is None:
            continue
        path, pool = ("storage", name, "pool"), settings.node_pools.get(store.node_pool)
        if pool is None:
            yield unknown(path, store.node_pool, "pool", settings.node_pools, "nodePools")
        elif pool.min_nodes != pool.max_nodes:
            problem = (
                f"Pool {store.node_pool!r} has {pool.min_nodes} to {pool.max_nodes} nodes, and a"
                " node that joins later has an empty disk."
            )
            yield SpecError(
                path,
                f"{problem} Set size.min and size.max to the same number, or use a store of kind"
                " efs or nfs.",
            )
        elif pool.directory_error is not None:
            yield SpecError(
                path,
                f"Pool {store.node_pool!r} {pool.directory_error}, or a store of kind efs or nfs.",
            )


def _node_disk_pool_errors(
    model: str, pool: str, name: str, store: Store, path: KeyPath
) -> Iterator[SpecError]:
    """Check that `model` on `pool` reads no disk of another pool's nodes; `path` is where it names
    the store.
    """
    if store.node_pool not in (None, pool):
        problem = (
            f"{name!r} is on the nodes of pool {store.node_pool!r}, but {model} runs on {pool!r}."
        )
        yield SpecError(path, f"{problem} Use a store of pool {pool!r}, or one of kind efs or nfs.")


def _artifact_name_errors(settings: StackSettings) -> Iterator[SpecError]:
    claimed: dict[str, str] = {}
    for name in settings.models:
        claimed |= {
            name: f"model {name}",
            bounded(name, "preheat"): f"the service account of {name}'s preheat",
        }
    for model, spec in settings.models.items():
        for name in spec.artifacts:
            here, job = ("models", model, "artifacts", name), artifact_job(model, name)
            if len(job) > MAX_NAME:
                yield SpecError(
                    here,
                    f"The preheat Job {job!r} has {len(job)} characters, but a label allows"
                    f" {MAX_NAME}. Shorten the name.",
                )
            for made in (job, bounded(job, "preheat")):
                if made in claimed:
                    yield SpecError(
                        here,
                        f"The name {made!r} of the preheat is already used by {claimed[made]}."
                        " Rename one of them.",
                    )
                claimed[made] = f"the preheat of {model}'s artifact {name}"
