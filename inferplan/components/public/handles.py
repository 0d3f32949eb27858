"""The values that public components pass to one another: settings, from which the receiver derives
what it needs.

They are plain data, so that programs in every language can pass them on, or write them by hand for
something that exists.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import pulumi
from pulumi.resource import DependencyResource
from pydantic import Field, SkipValidation, model_validator

from inferplan.components.pools import ExistingPool
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.sources import ModelMount, ModelSource
from inferplan.components.spec import Bytes, DnsLabel, FieldError, Spec, rule
from inferplan.components.storage.volume_spec import ClaimStoreSpec, NfsStoreSpec
from inferplan.components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from inferplan.components.stores import RelativePath, Revision, S3StoreSpec

Ready = Annotated[
    str | None,
    SkipValidation,
    Field(description="The URN of the resource that must be ready before the files are used."),
]


class Handle(dict[str, Any]):
    """Settings for another component, and the resource that must be ready before they are used."""

    def __init__(self, values: Mapping[str, Any], ready: pulumi.Resource | None = None) -> None:
        super().__init__(values if ready is None else {**values, "ready": ready.urn})
        self.ready = ready


def handle(values: Mapping[str, Any], ready: pulumi.Resource | None = None) -> Any:
    """Return `values`, which have the keys of the output that they are assigned to."""
    return Handle(values, ready)


def plain_values(spec: Spec) -> dict[str, Any]:
    """Return the settings of `spec` that are set, by the names of the inputs."""
    values = spec.model_dump(mode="json", by_alias=False, exclude_unset=True, exclude={"ready"})
    if isinstance(values.get("instance_type"), dict):
        values["machine_shape"] = values.pop("instance_type")
    return values


def ready_of(value: Mapping[str, Any]) -> pulumi.Resource | None:
    """Return the resource that `value` waits for: the resource itself in the program that declared
    it, and else by its URN.
    """
    if isinstance(value, Handle):
        return value.ready
    return DependencyResource(urn) if isinstance(urn := value.get("ready"), str) else None


class PoolHandle(ExistingPool):
    """Nodes that pods run on: the settings of a NodePool."""

    provider: Literal["existing"] = "existing"
    name: DnsLabel
    """The name of the pool, and the value of the label `inferplan.dev/pool` if `nodeSelector` is
    absent.
    """


class StoreHandle(Spec):
    """A place of model files: the settings of a ModelStore. Exactly one kind is set."""

    name: DnsLabel
    """The name of the store, for messages."""
    nfs: NfsStoreSpec | None = None
    """A directory that an NFS server exports to all nodes."""
    claim: ClaimStoreSpec | None = None
    """An existing PersistentVolumeClaim in the namespace of the models."""
    s3: S3StoreSpec | None = None
    """An existing S3 bucket, at AWS or at another endpoint."""
    http: HttpStoreSpec | None = None
    """Files below an HTTP(S) address."""
    hub: HubStoreSpec | None = None
    """Repositories of a Hugging Face hub."""
    ready: Ready = None

    @model_validator(mode="before")
    @classmethod
    def _name_the_kinds(cls, values: Any) -> Any:
        kinds = {"nfs": "nfs", "claim": "pvc", "s3": "s3", "http": "http", "hub": "huggingface"}
        return {
            key: (
                {"kind": kinds[key], **value}
                if key in kinds and isinstance(value, Mapping)
                else value
            )
            for key, value in values.items()
        }

    @rule
    def _check_kinds(self) -> Iterator[FieldError | str]:
        kinds = [
            name
            for name in ("nfs", "claim", "s3", "http", "hub")
            if getattr(self, name) is not None
        ]
        if len(kinds) != 1:
            yield (
                f"{len(kinds)} kinds of store are set ({', '.join(kinds) or 'none'}). Set one of"
                " nfs, claim, s3, http, hub."
            )
        if self.s3 is not None and self.s3.create is not None:
            yield FieldError(
                "A ModelStore does not create buckets. Declare the bucket yourself, and remove"
                " create.",
                "s3",
                "create",
            )

    @property
    def spec(self) -> NfsStoreSpec | ClaimStoreSpec | S3StoreSpec | HttpStoreSpec | HubStoreSpec:
        return next(
            each
            for each in (self.nfs, self.claim, self.s3, self.http, self.hub)
            if each is not None
        )

    @property
    def source(self) -> ModelSource:
        return self.spec.source()


class ModelFilesHandle(Spec):
    """The files of a model: the `files` of a Preheat, or a directory of a store that servers read
    directly.
    """

    store: StoreHandle
    """The store that servers mount, or stream from if it is a bucket."""
    path: RelativePath
    """The directory of the model in the store."""
    revision: Revision | None = None
    """The version of the files."""
    size: Bytes | None = None
    """Total size of the files, such as 16Gi; used to check deadlines and accelerator memory."""
    preheat: PreheatSpec | None = None
    """The settings of the Preheat that wrote the files; servers then check that they are complete.
    """
    folder: RelativePath | None = None
    """A directory of the same store that the model's pods may write to."""
    ready: Ready = None

    def mount(self, ready: pulumi.Resource | None) -> ModelMount | ModelSource:
        """Return the handle of the files. `ready` exists before servers start. Raises FieldError if
        no server can read the store.
        """
        source = self.store.source
        if source.stream_address(self.path) is not None:
            return source
        if source.claim is None:
            raise FieldError(
                f"Servers cannot mount the store {self.store.name!r}. Copy the files with a"
                " Preheat, and pass its `files`.",
                "store",
            )
        return ModelMount(
            claim=source.claim,
            sub_path=self.path,
            gate=ready,
            marked=self.preheat is not None,
            folder=self.folder,
        )

    def weights(self) -> dict[str, Any]:
        """Return the section `weights` of a stack file for these files."""
        values = {
            "store": self.store.name,
            "path": self.path,
            "revision": self.revision,
            "size": self.size,
        }
        return {key: value for key, value in values.items() if value is not None}
