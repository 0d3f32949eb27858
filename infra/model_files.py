"""Wires where models find their files: the stores of a stack, and what is copied from one into another before servers start.

Which store, which directory and which round is the settings' business; nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pulumi

from components.handles import ModelMount, ModelSource, NodeTarget, ObjectStore, VolumeClaim
from components.naming import bounded
from components.preheat.artifacts import artifact_job
from components.preheat.preheat_job import PreheatJob
from components.serving.spec import ModelSpec
from components.storage.aws_spec import EfsStoreSpec
from components.storage.model_store import PlainStore, S3Store, WebSource, model_store
from components.storage.spec import S3StoreSpec

if TYPE_CHECKING:
    from components.storage.efs import EfsStore
    from infra.aws import AwsPlatform
    from stackfile.stack import StackSettings

ModelStore: TypeAlias = "PlainStore | EfsStore"


def stores_of(
    spec: StackSettings,
    platform: AwsPlatform | None,
    targets: Mapping[str, NodeTarget],
    *,
    namespace: pulumi.Output[str],
    opts: pulumi.ResourceOptions,
) -> dict[str, ModelStore]:
    """Declares every store of `spec`, by name; `platform` makes those that live on AWS."""
    stores: dict[str, ModelStore] = {}
    for name, store in spec.storage.items():
        if platform is not None and isinstance(store, S3StoreSpec | EfsStoreSpec):
            stores[name] = platform.store(name, store, namespace=namespace, scope=spec.namespace, kube=opts)
        elif not isinstance(store, EfsStoreSpec):
            stores[name] = model_store(name, store, namespace=namespace, scope=spec.namespace, targets=targets, opts=opts)
    return stores


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """The files of models: in `stores`, and mounted or lent to servers inside `namespace`, on nodes of `targets`."""

    stores: Mapping[str, ModelStore]
    targets: Mapping[str, NodeTarget]
    namespace: pulumi.Output[str]
    opts: pulumi.ResourceOptions

    def weights(self, name: str, spec: ModelSpec) -> ModelMount | ObjectStore:
        """What the servers of model `name` read, preheated where the model asks for it."""
        source = self._source(spec.weights.store, name if spec.preheat is None else bounded(name, "preheat"), spec.weights.path)
        if spec.preheat is not None:
            target = self._share(spec.preheat.into)
            folder = spec.folder_on(self.targets[spec.pool])
            return PreheatJob(
                name, spec.weights, spec.preheat, source=source, target=target, namespace=self.namespace, folder=folder, opts=self.opts
            ).mount
        if isinstance(source, VolumeClaim):
            return ModelMount(claim=source, sub_path=spec.weights.path, gate=source.ready)
        if not isinstance(source, ObjectStore):
            raise TypeError(f"models.{name}.weights.store: no engine reads {spec.weights.store} itself; add preheat")
        return source

    def artifacts(self, model: str, spec: ModelSpec) -> dict[str, ModelMount]:
        """A preheat for each artifact beside the weights of `model`, into the share that the artifact names."""
        if spec.preheat is None:
            return {}
        mounts: dict[str, ModelMount] = {}
        for name, artifact in spec.artifacts.items():
            job, how = artifact_job(model, name), artifact.preheat(spec.preheat)
            source, target = self._source(artifact.store, bounded(job, "preheat"), artifact.path), self._share(how.into)
            mounts[name] = PreheatJob(job, artifact, how, source=source, target=target, namespace=self.namespace, opts=self.opts).mount
        return mounts

    def _share(self, name: str) -> VolumeClaim:
        store = self.stores[name]
        if isinstance(store, S3Store | WebSource):
            raise TypeError(f"preheat.into: {name} is no share")
        return store.claim

    def _source(self, name: str, account: str, path: str) -> ModelSource:
        """What the store `name` lends to the service account that reads the directory `path` of it."""
        store = self.stores[name]
        if isinstance(store, S3Store):
            return store.reader(account, path)
        return store.files if isinstance(store, WebSource) else store.claim
