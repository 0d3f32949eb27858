"""Where models' files come from and go to: stores that exist, of the right kind, large enough."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from components.nodes.accelerators import lookup
from components.spec import KeyPath, SpecError, bytes_of
from components.storage.aws_spec import EfsStoreSpec
from components.storage.disk_spec import ClaimStoreSpec, NodeDiskStoreSpec
from components.storage.spec import NfsStoreSpec, S3StoreSpec
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from stackfile.checks import node_disks
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from components.serving.spec import ModelSpec
    from components.storage.spec import StoreSpec, WeightsSpec
    from stackfile.stack import StackSettings

_WRITABLE = NfsStoreSpec | EfsStoreSpec | ClaimStoreSpec | NodeDiskStoreSpec
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of stores, weights and preheats."""
    yield from node_disks.errors(settings)
    filled: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, model in settings.models.items():
        yield from _source_errors(name, model, settings)
        yield from _target_errors(name, model, settings)
        if model.preheat is not None and model.weights.size is not None:
            beside = sum(bytes_of(each.size) for each in model.artifacts.values() if each.size is not None)
            filled[model.preheat.into].append((name, bytes_of(model.weights.size) + beside))
    for store, models in filled.items():
        yield from _overfull(store, models, settings)


def _source_errors(name: str, model: ModelSpec, settings: StackSettings) -> Iterator[SpecError]:
    here = ("models", name, "weights")
    source = settings.storage.get(model.weights.store)
    if source is None:
        yield unknown((*here, "store"), model.weights.store, "store", settings.storage, "storage")
        return
    if model.weights.files and not isinstance(source, HttpStoreSpec):
        yield SpecError(
            (*here, "files"),
            f"only a store of kind http needs its files named, and {model.weights.store!r} is of kind {source.kind}; "
            "remove files, and choose among them with preheat.include and preheat.exclude",
        )
    if isinstance(source, HubStoreSpec):
        yield from repository_errors(here, model.weights, source)
    if isinstance(source, NodeDiskStoreSpec) and model.preheat is not None:
        yield SpecError(
            (*here, "store"),
            f"{model.weights.store!r} is a disk of each node, which nothing is copied from; name where the files come from",
        )
    elif model.preheat is None:
        yield from _direct_errors(name, model, source, settings)


def _direct_errors(name: str, model: ModelSpec, source: StoreSpec, settings: StackSettings) -> Iterator[SpecError]:
    """Faults of a model whose engine reads the store itself."""
    path = ("models", name, "weights", "store")
    store, remedy = model.weights.store, "add preheat: {into: <nfs store>}"
    pool = settings.node_pools.get(model.pool)
    on_gaudi = pool is not None and pool.accelerator is not None and lookup(pool.accelerator).vendor == "habana"
    if isinstance(source, HttpStoreSpec | HubStoreSpec):
        yield SpecError(path, f"{store!r} is a store of kind {source.kind}, which no engine here reads itself, unverified; {remedy}")
    elif isinstance(source, S3StoreSpec) and on_gaudi:
        yield SpecError(
            path,
            f"{store!r} is an s3 store, and the Gaudi images carry no streaming loader; {remedy}, or keep the weights on an nfs store",
        )
    elif isinstance(source, S3StoreSpec) and not model.reads_buckets:
        yield SpecError(
            path,
            f"{store!r} is an s3 store, and {model.engine} reads this model from files; {remedy}, or keep the weights on an nfs store",
        )
    elif isinstance(source, S3StoreSpec) and source.ca_bundle is not None and "AWS_CA_BUNDLE" in model.env:
        yield SpecError(("models", name, "env", "AWS_CA_BUNDLE"), f"storage.{store}.caBundle sets it for this model; remove one of them")
    elif isinstance(source, NodeDiskStoreSpec):
        yield from node_disks.errors_of_pool(name, model.pool, store, source, path)


def repository_errors(here: KeyPath, weights: WeightsSpec, hub: HubStoreSpec) -> Iterator[SpecError]:
    """Faults of files of a hub, written at `here`: a path that is no repository, a revision that moves."""
    path, revision = weights.path, weights.revision
    if not _REPOSITORY.fullmatch(path):
        yield SpecError((*here, "path"), f"{path!r} is no repository of a hub; write owner/name, such as Qwen/Qwen3-8B")
    elif revision is None or not _COMMIT.fullmatch(revision):
        given = "no revision is given" if revision is None else f"{revision!r} is a name, which may come to mean other files"
        ask = f"git ls-remote {hub.endpoint}/{path} {'HEAD' if revision is None else revision}"
        yield SpecError((*here, "revision"), f"{given}; write the commit that it stands for, 40 hex digits, as this prints it: {ask}")


def _target_errors(name: str, model: ModelSpec, settings: StackSettings) -> Iterator[SpecError]:
    if model.preheat is None:
        return
    path = ("models", name, "preheat", "into")
    store = model.preheat.into
    target = settings.storage.get(store)
    if target is None:
        yield unknown(path, store, "store", settings.storage, "storage")
    elif not isinstance(target, _WRITABLE):
        shares = sorted(each for each, spec in settings.storage.items() if isinstance(spec, _WRITABLE))
        allowed = f"one of {', '.join(shares)}" if shares else "a store of kind nfs, which this stack does not have yet"
        yield SpecError(path, f"{store!r} is a store of kind {target.kind}, which no pod can mount; name {allowed}")
    elif isinstance(target, NodeDiskStoreSpec) and model.needs_share:
        yield SpecError(
            path, f"{store!r} is a disk of each node, and this model writes what every node reads; name a store of kind nfs, efs or claim"
        )
    elif isinstance(target, NodeDiskStoreSpec):
        yield from node_disks.errors_of_pool(name, model.pool, store, target, path)


def _overfull(store: str, models: list[tuple[str, int]], settings: StackSettings) -> Iterator[SpecError]:
    target = settings.storage.get(store)
    if not isinstance(target, NfsStoreSpec | ClaimStoreSpec | NodeDiskStoreSpec) or target.capacity is None:
        return
    used = [0, *accumulate(size for _, size in models)]
    first = next((index for index, total in enumerate(used) if total > bytes_of(target.capacity)), None)
    if first is not None:
        name = models[first - 1][0]
        what = "each node's part of store" if isinstance(target, NodeDiskStoreSpec) else "share"
        yield SpecError(
            ("models", name, "weights", "size"),
            f"from this model's {settings.models[name].weights.size} on, {what} {store!r} is too small: its models need "
            f"{used[-1] / 2**30:.0f}Gi and its capacity is {target.capacity}; raise storage.{store}.capacity or preheat fewer",
        )
