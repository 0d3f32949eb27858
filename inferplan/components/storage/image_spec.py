"""The settings of a store of OCI images: the kubelet pulls the image of a model and mounts it.

Image volumes: Kubernetes 1.35 has them by default (kubernetes.io/docs, image-volumes, read
2026-11), with containerd 2.1 or CRI-O 1.31 on the nodes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from inferplan.components.images.spec import registry
from inferplan.components.sources import ModelMount, ModelSource, VolumeClaim
from inferplan.components.spec import checked
from inferplan.components.storage.fields import Store
from inferplan.documents.errors import SpecError

_DIGEST = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


@dataclass(frozen=True, kw_only=True)
class ImageRegistry(ModelSource):
    """A registry with one image per model, which pods mount as a volume."""

    registry: str

    def root(self, path: str) -> str:
        return f"{self.registry}/{path}"

    def mount(self, path: str, revision: str | None) -> ModelMount:
        reference = f"{self.root(path)}@sha256:{revision}"
        return ModelMount(claim=VolumeClaim(name=reference, is_image=True), sub_path="")


class ImageStoreSpec(Store):
    """OCI images or artifacts with the files of a model each, in a registry. Servers mount them;
    nothing is copied to a share.
    """

    kind: Literal["oci"]
    registry: Annotated[
        str,
        StringConstraints(max_length=255),
        checked(lambda text: registry(text, "ghcr.io/acme/models")),
    ]
    """The registry and the beginning of its repositories: host[:port][/path]. Pods get the pull
    secrets of images.imagePullSecrets and of the model; images.mirror applies.
    """

    is_volume: ClassVar[bool] = True
    copyable: ClassVar[bool] = False
    pinned: ClassVar[bool] = True
    pulled: ClassVar[bool] = True

    @property
    def location(self) -> str:
        return self.registry

    @property
    def is_shared(self) -> bool:
        return False

    @property
    def takes_preheats(self) -> bool:
        return False

    def source(self) -> ImageRegistry:
        return ImageRegistry(registry=self.registry)

    def path_errors(self, path: str, revision: str | None) -> Iterator[SpecError]:
        if not _REPOSITORY.fullmatch(path):
            yield SpecError(
                ("path",),
                f"{path!r} is not the repository of an image. Use lower-case letters, digits, '.',"
                " '_', '-' and '/', and write the digest into revision.",
            )
        if revision is None or not _DIGEST.fullmatch(revision):
            reference = f"{self.registry}/{path}" + (f":{revision}" if revision else "")
            problem = (
                "revision is missing, and the tag of an image can move"
                if revision is None
                else f"{revision!r} is a tag, and a tag can move"
            )
            yield SpecError(
                ("revision",) if revision else (),
                f"{problem}. Write the digest, revision: sha256:<64 hex digits>, which crane digest"
                f" {reference} prints.",
            )
