"""Public components for model files: stores, and the jobs that copy from one to another."""

from dataclasses import replace

import pulumi

from inferplan.components.preheat.preheat_job import PreheatJob
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.public import args as types
from inferplan.components.public.handles import StoreHandle, handle, plain_values, ready_of
from inferplan.components.public.inputs import Check, Extra, Inputs
from inferplan.components.sources import ModelSource
from inferplan.components.storage.static_volume import StaticStore
from inferplan.components.stores import WeightsSpec
from inferplan.documents.errors import SpecError

NAMESPACE = Extra(
    "pulumi.Input[str]", "The namespace of the models, such as the `name` of an InferenceNamespace."
)


class ModelStore(pulumi.ComponentResource):
    """A place of model files: set one of `nfs`, `claim`, `s3`, `http` and `hub`. An NFS export gets
    a PersistentVolume and a claim; others need none.
    """

    store: types.Store
    """The store, for a Preheat or for the weights of a model."""

    _inputs = Inputs(
        (StoreHandle,),
        {
            "namespace": NAMESPACE,
            "scope": Extra(
                "str",
                "A name that keeps the volumes of two stacks on one cluster apart. Default:"
                " <project>-<stack>.",
                required=False,
            ),
        },
        frozenset({"name", "ready"}),
    )

    def __init__(
        self, name: str, args: types.ModelStoreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check = Check(self, name, args, self._inputs)
        spec = check.spec(StoreHandle, {**check.settings, "name": name})
        check.stop()
        super().__init__("inferplan:index:ModelStore", name, spec.intent(), opts)
        ready = None
        if spec.nfs is not None:
            scope = check.extras.get("scope") or f"{pulumi.get_project()}-{pulumi.get_stack()}"
            inside = pulumi.ResourceOptions(parent=self)
            ready = StaticStore(
                name,
                spec.nfs,
                spec.nfs.volume(),
                namespace=check.extras["namespace"],
                scope=scope,
                opts=inside,
            ).claim.ready
        self.store = handle(plain_values(spec), ready)
        self.register_outputs({"store": self.store})


class Preheat(pulumi.ComponentResource):
    """A Job that copies the files of one model from a store to a share, and verifies them, before
    servers start.
    """

    files: types.ModelFiles
    """The copied files, as the `weights` or an artifact of a model."""

    _inputs = Inputs(
        (WeightsSpec, PreheatSpec),
        {
            "namespace": NAMESPACE,
            "source": Extra(
                "pulumi.Input[Store]", "The store to copy from: the `store` of a ModelStore."
            ),
            "target": Extra(
                "pulumi.Input[Store]",
                "The share to copy to: the `store` of a ModelStore with nfs or claim.",
            ),
            "folder": Extra(
                "str",
                "A directory of the share to make for the model's pods to write to. Default: none.",
                required=False,
            ),
        },
        frozenset({"store", "into"}),
    )

    def __init__(
        self, name: str, args: types.PreheatArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check = Check(self, name, args, self._inputs)
        extras = check.extras
        source, target = (
            check.spec(StoreHandle, extras[each], each) for each in ("source", "target")
        )
        own = {
            key: check.settings.pop(key)
            for key in [*check.settings]
            if key in PreheatSpec.model_fields
        }
        check.stop()
        weights = check.spec(WeightsSpec, {**check.settings, "store": source.name})
        preheat = check.spec(PreheatSpec, {**own, "into": target.name})
        gates = ready_of(extras["target"]), ready_of(extras["source"])
        copy, origin = (
            _with_gate(store.source, gate)
            for store, gate in zip((target, source), gates, strict=True)
        )
        if (claim := copy.claim) is None:
            message = (
                f"Pods cannot mount the store {target.name!r}. Use a ModelStore with nfs or claim."
            )
            check.fail(SpecError(("target",), message))
        check.stop()
        super().__init__(
            "inferplan:index:Preheat",
            name,
            {"weights": weights.intent(), "preheat": preheat.intent()},
            opts,
        )
        job = PreheatJob(
            name,
            weights,
            preheat,
            source=origin,
            target=claim,
            namespace=extras["namespace"],
            folder=extras.get("folder"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        copied = {
            "store": plain_values(target),
            "path": job.mount.sub_path,
            "preheat": plain_values(preheat),
            "folder": job.mount.folder,
        }
        provenance = {"revision": weights.revision, "size": weights.size}
        self.files = handle(
            {key: value for key, value in {**copied, **provenance}.items() if value is not None},
            job.mount.gate,
        )
        self.register_outputs({"files": self.files})


def _with_gate(source: ModelSource, gate: pulumi.Resource | None) -> ModelSource:
    return source if source.claim is None else replace(source.claim, ready=gate)
