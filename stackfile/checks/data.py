"""Checks where models' files come from and go to: stores must exist, be of a supported kind and large enough."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from components.nodes.accelerators import lookup
from components.spec import KeyPath, SpecError
from components.storage.spec import S3StoreSpec
from components.storage.volume_spec import ClaimStoreSpec, NfsStoreSpec, NodeDiskStoreSpec
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from kube.quantity import bytes_of
from stackfile.checks import unknown

if TYPE_CHECKING:
    from components.serving.spec import ModelSpec
    from components.storage.spec import WeightsSpec
    from stackfile.stack import StackSettings

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check stores, weights and preheats."""
    yield from node_disk_errors(settings)
    filled: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, model in settings.models.items():
        if model.stored_files is not None:
            yield from _source_errors(name, model, model.stored_files, settings)
        yield from _target_errors(name, model, settings)
        if model.preheat is not None and model.stored_files is not None and model.stored_files.size is not None:
            artifacts = sum(bytes_of(each.size) for each in model.artifacts.values() if each.size is not None)
            filled[model.preheat.into].append((name, bytes_of(model.stored_files.size) + artifacts))
    for store, models in filled.items():
        yield from _overfull(store, models, settings)


def _source_errors(name: str, model: ModelSpec, weights: WeightsSpec, settings: StackSettings) -> Iterator[SpecError]:
    here = ("models", name, model.stored_files_field)
    source = settings.storage.get(weights.store)
    if source is None:
        yield unknown((*here, "store"), weights.store, "store", settings.storage, "storage")
        return
    if weights.files and not isinstance(source, HttpStoreSpec):
        yield SpecError(
            (*here, "files"),
            not_listed(weights.store, source.kind, "preheat.include and preheat.exclude"),
        )
    if isinstance(source, HubStoreSpec):
        yield from repository_errors(here, weights, source)
    if isinstance(source, NodeDiskStoreSpec) and model.preheat is not None:
        yield SpecError(
            (*here, "store"),
            not_a_source(weights.store),
        )
    elif model.preheat is None:
        yield from _direct_errors(name, model, weights.store, settings)


def not_a_source(store: str) -> str:
    """The message about `store` of kind nodeDisk as a source."""
    return (
        f"{store!r} is a disk of each node, and files cannot be copied from it. Use a store of kind s3, http, huggingface, nfs, efs or pvc."
    )


def not_listed(store: str, kind: str, fields: str) -> str:
    """The message about `files` of `store`, whose `kind` lists its files itself; `fields` select some of them."""
    return f"files is only for stores of kind http, but {store!r} is of kind {kind}. Remove files, and select with {fields}."


def _preheat_remedy(settings: StackSettings) -> str:
    """Return the remedy that puts a model's files on a share: the preheat, and the share if there is none."""
    shares = sorted(name for name, spec in settings.storage.items() if spec.mountable and not isinstance(spec, NodeDiskStoreSpec))
    if shares:
        return f"Add preheat: {{into: {shares[0]}}} to the model"
    return f"Add preheat: {{into: shared}} to the model, and to storage shared: {settings.cluster.example_share}"


def _direct_errors(name: str, model: ModelSpec, store: str, settings: StackSettings) -> Iterator[SpecError]:
    """Check a model whose engine reads `store` without a preheat."""
    path = ("models", name, model.stored_files_field, "store")
    source, remedy = settings.storage[store], _preheat_remedy(settings)
    pool = settings.node_pools.get(model.pool)
    on_gaudi = pool is not None and pool.accelerator is not None and lookup(pool.accelerator).vendor == "habana"
    if isinstance(source, HttpStoreSpec | HubStoreSpec):
        yield SpecError(path, f"{store!r} is a store of kind {source.kind}, which engines cannot read directly. {remedy}.")
    elif isinstance(source, S3StoreSpec) and on_gaudi:
        yield SpecError(
            path,
            f"{store!r} is an s3 store, but the Gaudi images have no streaming loader. {remedy}.",
        )
    elif isinstance(source, S3StoreSpec) and not model.reads_buckets:
        yield SpecError(
            path,
            f"{store!r} is an s3 store, but {model.engine} reads this model from files. {remedy}.",
        )
    elif isinstance(source, S3StoreSpec) and source.ca_bundle is not None and "AWS_CA_BUNDLE" in model.env:
        yield SpecError(
            ("models", name, "env", "AWS_CA_BUNDLE"), f"AWS_CA_BUNDLE is also set by storage.{store}.caBundle. Remove one of them."
        )
    elif isinstance(source, NodeDiskStoreSpec):
        yield from errors_of_pool(name, model.pool, store, source, path)


def repository_errors(here: KeyPath, weights: WeightsSpec, hub: HubStoreSpec) -> Iterator[SpecError]:
    """Check files of a hub at `here`: the path must be a repository, the revision a commit."""
    path, revision = weights.path, weights.revision
    if not _REPOSITORY.fullmatch(path):
        yield SpecError((*here, "path"), f"{path!r} is not a repository. Expected owner/name, for example Qwen/Qwen3-8B.")
    elif revision is None or not _COMMIT.fullmatch(revision):
        problem = "The revision is missing" if revision is None else f"{revision!r} is not a commit, so its files can change"
        command = f"git ls-remote {hub.endpoint}/{path} {'HEAD' if revision is None else revision}"
        yield SpecError((*here, "revision"), f"{problem}. Expected a commit (40 hex digits). Find it with: {command}")


def _target_errors(name: str, model: ModelSpec, settings: StackSettings) -> Iterator[SpecError]:
    if model.preheat is None:
        return
    path = ("models", name, "preheat", "into")
    store = model.preheat.into
    target = settings.storage.get(store)
    if target is None:
        yield unknown(path, store, "store", settings.storage, "storage")
    elif not target.mountable:
        volumes = sorted(each for each, spec in settings.storage.items() if spec.mountable)
        remedy = (
            f"Use one of {', '.join(volumes)}."
            if volumes
            else f"Add to storage shared: {settings.cluster.example_share}, and preheat into it."
        )
        yield SpecError(path, f"{store!r} is a store of kind {target.kind}, which pods cannot mount. {remedy}")
    elif isinstance(target, NodeDiskStoreSpec) and model.needs_share:
        yield SpecError(
            path,
            f"{store!r} is a disk of each node, but this model writes files that other nodes read. Use a store of kind nfs, efs or pvc.",
        )
    elif isinstance(target, NodeDiskStoreSpec):
        yield from errors_of_pool(name, model.pool, store, target, path)


def _overfull(store: str, models: list[tuple[str, int]], settings: StackSettings) -> Iterator[SpecError]:
    target = settings.storage.get(store)
    if not isinstance(target, NfsStoreSpec | ClaimStoreSpec | NodeDiskStoreSpec) or target.capacity is None:
        return
    used = [0, *accumulate(size for _, size in models)]
    first = next((index for index, total in enumerate(used) if total > bytes_of(target.capacity)), None)
    if first is not None:
        name = models[first - 1][0]
        weights = settings.models[name].stored_files
        yield SpecError(
            ("models", name, settings.models[name].stored_files_field, "size"),
            f"{weights and weights.size} exceeds the free space of store {store!r}: its models need {used[-1] / 2**30:.0f}Gi"
            f"{' on each node' if isinstance(target, NodeDiskStoreSpec) else ''}, and its capacity is {target.capacity}. "
            f"Raise storage.{store}.capacity, or preheat fewer models into it.",
        )


def node_disk_errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check the pools of stores of kind nodeDisk."""
    for name, store in settings.storage.items():
        if not isinstance(store, NodeDiskStoreSpec):
            continue
        path = ("storage", name, "pool")
        pool = settings.node_pools.get(store.pool)
        if pool is None:
            yield unknown(path, store.pool, "pool", settings.node_pools, "nodePools")
        elif pool.min_nodes != pool.max_nodes:
            yield SpecError(
                path,
                f"Pool {store.pool!r} has {pool.min_nodes} to {pool.max_nodes} nodes, and a node that joins later has an empty disk. "
                "Set size.min and size.max to the same number, or use a store of kind efs or nfs.",
            )
        elif pool.directory_error is not None:
            yield SpecError(path, f"Pool {store.pool!r} {pool.directory_error}, or a store of kind efs or nfs.")


def errors_of_pool(model: str, pool: str, name: str, store: NodeDiskStoreSpec, path: KeyPath) -> Iterator[SpecError]:
    """Check that `model` on `pool` reads a nodeDisk store of the same pool; `path` is where it names the store."""
    if pool != store.pool:
        yield SpecError(
            path,
            f"{name!r} is on the nodes of pool {store.pool!r}, but {model} runs on {pool!r}. Use a store of pool {pool!r}, or one of kind efs or nfs.",
        )
