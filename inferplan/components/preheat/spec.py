"""The settings of a preheat: which share, which files, which round; for weights and for artifacts."""

from typing import Annotated

from pydantic import Field, StringConstraints

from inferplan.components.spec import Bytes, Cpu, PinnedImage, Spec
from inferplan.components.stores import WeightsSpec
from inferplan.images.catalogue import default_image

DEFAULT_IMAGE = default_image("preheat")
DEFAULT_RCLONE_IMAGE = default_image("rclone")
# KServe's downloader, which has huggingface_hub in a virtual environment.
DEFAULT_HUB_IMAGE = default_image("preheat-hub")

Glob = Annotated[
    str,
    StringConstraints(pattern=r"^[^/\x00-\x1f\\][^\x00-\x1f\\]*$", max_length=256),
    Field(
        description=(
            "A shell pattern on the path below the model's directory: *.safetensors, tokenizer/*. A"
            " star also matches slashes."
        )
    ),
]


class PreheatSpec(Spec):
    """Copies a model's files to a share, or to each node's disk, verified, before any accelerator
    waits for them.
    """

    into: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """The name of a store under storage that pods can mount and write: nfs, efs, pvc or nodeDisk.
    """
    round: Annotated[int, Field(ge=0, le=9999)] = 0
    """Raise it by one to read the source again, into a new directory."""
    keep: Annotated[int, Field(ge=1, le=20)] = 2
    """Number of rounds that stay on the share, the newest first; 2 keeps the one that a rollout
    replaces.
    """
    include: tuple[Glob, ...] = ()
    """Only files that match one of these; empty for all."""
    exclude: tuple[Glob, ...] = ()
    """Files to leave out; wins over include."""
    allow_pickle: tuple[Glob, ...] = ()
    """Files to copy although loading them runs code (.bin, .pt, .pth, .ckpt, .pkl, ...); other
    files of that kind are rejected.
    """
    strict: bool = False
    """Reject files that are neither text nor of a known format of weights, unless allowPickle lists
    them.
    """
    timeout_seconds: Annotated[int, Field(ge=60, le=604_800)] | None = None
    """Deadline in seconds. Absent: from the weights' size at 50 MiB/s, at least half an hour; six
    hours without a size.
    """
    ttl_seconds_after_finished: Annotated[int, Field(ge=3600, le=31_536_000)] | None = 2_592_000
    """Seconds until Kubernetes removes the finished Job; null for never. The next update creates it
    again, and it copies nothing.
    """
    cpu: Cpu = "2"
    """CPU of the transfer; checksums run on as many cores."""
    memory: Bytes = "1Gi"
    """Memory of the transfer. The program needs less than 256Mi; the rest is page cache."""
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] = 65532
    """The numeric user and group that writes. The share must allow it, because NFS ignores fsGroup.
    """
    image: PinnedImage | None = None
    """An image with Python 3.11 or newer, and with huggingface_hub for a store of kind huggingface.
    Absent: a suitable image.
    """
    rclone_image: PinnedImage = DEFAULT_RCLONE_IMAGE
    """An image with rclone at /usr/local/bin/rclone."""


class ArtifactSpec(WeightsSpec):
    """A directory of a store that a model's servers get as /artifacts/<name>, read-only.

    Each artifact (adapters, a tokenizer, engines, a repository) has its own preheat, to the share
    of the model's weights.
    """

    round: Annotated[int, Field(ge=0, le=9999)] = 0
    """Raise it by one to read the source again, into a new directory; the round of the weights
    stays.
    """
    include: tuple[Glob, ...] = ()
    """Only files that match one of these; empty for all."""
    exclude: tuple[Glob, ...] = ()
    """Files to leave out; wins over include."""
    allow_pickle: tuple[Glob, ...] = ()
    """Files to copy although loading them runs code; other files of that kind are rejected."""

    def preheat(self, weights: PreheatSpec) -> PreheatSpec:
        own = {
            "round": self.round,
            "include": self.include,
            "exclude": self.exclude,
            "allow_pickle": self.allow_pickle,
        }
        return weights.model_copy(update=own)


def artifact_job(model: str, artifact: str) -> str:
    """The name of an artifact's preheat in names, labels and status files."""
    return f"{model}-{artifact}"
