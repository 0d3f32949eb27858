"""The settings of a model's pods that Kubernetes defines: variables from Secrets, volumes,
tolerations, classes.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeInt, StringConstraints, Tag, field_validator

from inferplan.components.egress_spec import EgressSpec
from inferplan.components.images.spec import PullSecrets
from inferplan.components.spec import (
    Bytes,
    Cpu,
    DnsLabel,
    DnsName,
    LabelKey,
    LabelValue,
    Spec,
    checked,
    duplicates,
    rule,
)
from inferplan.kube.quantity import bytes_of

EnvName = Annotated[
    str,
    StringConstraints(pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$", max_length=128),
    Field(
        description=(
            "The name of a variable: letters, digits, '_', '-' and '.', not starting with a digit."
        )
    ),
]
# Not "." and nothing that starts with "..".
DataKey = Annotated[
    str, StringConstraints(pattern=r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", max_length=253)
]
# Directories that inferplan mounts, or that belong to the system.
_MOUNTED = (
    *(
        "/dev",
        "/proc",
        "/sys",
        "/tmp",  # noqa: S108 - paths in a container, where nothing is created here
        "/cache",
    ),
    *(
        "/models",
        "/artifacts",
        "/live",
        "/share",
        "/repository",
        "/bind",
        "/engines",
        "/launch",
        "/settings",
        "/ca",
        "/var/log/habana_logs",
    ),
)

_PAGE = 2 * 2**20
_ANNOTATION_BYTES = 128 * 2**10
# Set by us or by the device plugin: a literal here would override an allocation, a key or a path
# that something else relies on.
RESERVED_ENV = {
    "HABANA_VISIBLE_DEVICES": "the device plugin sets it; a literal would override the allocation",
    "HABANA_VISIBLE_MODULES": "the device plugin sets it; a literal would override the allocation",
    "NVIDIA_VISIBLE_DEVICES": "the device plugin sets it; a literal would override the allocation",
    "SERVER_KEY": "the server key comes from a Secret that inferplan makes",
    "HOME": "it points at the writable cache volume",
}


def _whole_pages(size: str) -> Iterator[str]:
    if bytes_of(size) % _PAGE:
        yield (
            f"{size!r} is not a multiple of 2Mi, the size of a huge page. Use a multiple, for"
            " example 1Gi"
        )


HugePages = Annotated[Bytes, checked(_whole_pages)]


class ModelResources(Spec):
    """The requests of one replica, except accelerators. Default: its share of the node, in
    proportion to its accelerators.
    """

    cpu: Cpu | None = None
    """CPU request; there is no CPU limit, since throttling stalls the accelerator."""
    memory: Bytes | None = None
    """Memory, request and limit alike; shared memory counts against it."""
    hugepages2_mi: HugePages | None = Field(default=None, alias="hugepages2Mi")
    """2 MiB huge pages, request and limit alike; on Gaudi by default the accelerator table's value
    for each accelerator.
    """


class SecretKey(Spec):
    """One value of a Secret in the stack's namespace."""

    secret_name: DnsName
    """The name of an existing Secret. Its values are never part of a stack file."""
    key: DataKey
    """The key of the value in the Secret."""


EnvValue = Annotated[
    Annotated[str, Tag("text")] | Annotated[SecretKey, Tag("secret")],
    Discriminator(lambda value: "secret" if isinstance(value, dict | SecretKey) else "text"),
]


class Toleration(Spec):
    """A toleration of Kubernetes."""

    key: LabelKey | None = None
    """The key of the taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """`Exists` matches every value of the key."""
    value: LabelValue = ""
    """The value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The effect of the taint. Default: every effect."""
    toleration_seconds: NonNegativeInt | None = None
    """With effect NoExecute: seconds until a pod is evicted. Default: never."""

    @rule
    def _fields_match(self) -> Iterator[str]:
        if self.key is None:
            yield (
                "A toleration without key matches every taint, also of broken nodes. Add key: <key"
                " of the taint>"
            )
        if self.operator == "Exists" and self.value:
            yield (
                f"operator Exists matches every value, but value is {self.value!r}. Remove value,"
                " or use operator: Equal"
            )
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            yield (
                "tolerationSeconds requires effect: NoExecute. Set it, or remove tolerationSeconds"
            )


class ClaimSource(Spec):
    """A PersistentVolumeClaim in the stack's namespace."""

    claim_name: DnsName
    """The name of an existing claim."""


class ConfigMapSource(Spec):
    """A ConfigMap in the stack's namespace."""

    name: DnsName
    """The name of an existing ConfigMap."""


def _free_path(path: str) -> Iterator[str]:
    if any(part in ("", ".", "..") for part in path.split("/")[1:]):
        yield (
            f"{path!r} is not a directory to mount at. Use an absolute path without '.', '..' or"
            " double slashes"
        )
    if taken := next((each for each in _MOUNTED if f"{path}/".startswith(f"{each}/")), None):
        yield (
            f"{path!r} is in {taken}, which inferplan or the system mounts. Use another directory,"
            " for example /data"
        )


MountPath = Annotated[
    str, StringConstraints(pattern=r"^/[^\x00-\x1f\\:]*$", max_length=512), checked(_free_path)
]


class ExtraVolume(Spec):
    """A further volume of a model's pods, from one source."""

    persistent_volume_claim: ClaimSource | None = None
    config_map: ConfigMapSource | None = None
    mount_path: MountPath
    """The directory in the containers."""
    sub_path: (
        Annotated[
            str, StringConstraints(pattern=r"^[^/\x00-\x1f\\][^\x00-\x1f\\]*$", max_length=512)
        ]
        | None
    ) = None
    """A path inside the volume. Default: the whole volume."""
    read_only: bool = True
    """False lets the pods write to a claim."""

    @rule
    def _one_source(self) -> Iterator[str]:
        if (self.persistent_volume_claim is None) == (self.config_map is None):
            yield (
                "A volume has one source. Set persistentVolumeClaim: {claimName} or configMap:"
                " {name}"
            )
        if self.config_map is not None and not self.read_only:
            yield "A ConfigMap is always read-only. Remove readOnly, or use persistentVolumeClaim"
        if self.sub_path is not None and ".." in self.sub_path.split("/"):
            yield f"subPath {self.sub_path!r} leaves the volume. Use a path without '..'"


class PodSettings(Spec):
    """The settings that the pods of every engine take."""

    env: dict[EnvName, EnvValue] = {}
    """Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    egress: EgressSpec = EgressSpec()
    labels: dict[LabelKey, LabelValue] = {}
    """Further labels on the pods."""
    annotations: dict[LabelKey, str] = {}
    """Further annotations on the pods."""
    image_pull_secrets: PullSecrets = []
    """Secrets that open the private registry of the image, in addition to the stack's."""
    priority_class_name: DnsName | None = None
    """The PriorityClass of the pods, which must exist."""
    scratch: MountPath | None = None
    """The directory of the pods' own volumes for temporary files and caches. Default: /tmp and
    /cache, where they hide files of the image.
    """
    scheduler_name: DnsName | None = None
    """The scheduler of the pods. Default: the cluster's default scheduler."""
    tolerations: Annotated[list[Toleration], Field(max_length=16)] = []
    """Further tolerations. The taints of the pool are tolerated without them."""
    volumes: Annotated[
        dict[Annotated[DnsLabel, StringConstraints(max_length=56)], ExtraVolume],
        Field(max_length=16),
    ] = {}
    """Further volumes by name, from existing claims and ConfigMaps."""

    @property
    def scratch_paths(self) -> dict[str, str]:
        """The mount paths of the volumes `tmp` and `cache`."""
        return {name: f"{self.scratch or ''}/{name}" for name in ("tmp", "cache")}

    @field_validator("annotations")
    @classmethod
    def _annotations_leave_ours_alone(cls, annotations: dict[str, str]) -> dict[str, str]:
        if reserved := [key for key in annotations if key.startswith("inferplan.dev/")]:
            raise ValueError(
                f"{', '.join(reserved)} is an annotation that inferplan sets. Use another prefix"
            )
        # Kubernetes allows twice as much, also for the annotations that inferplan and operators
        # add.
        if (
            size := sum(len(each.encode()) for item in annotations.items() for each in item)
        ) > _ANNOTATION_BYTES:
            raise ValueError(
                f"The annotations have {size} bytes. Use at most {_ANNOTATION_BYTES}, and put files"
                " into a ConfigMap under volumes"
            )
        return annotations

    @field_validator("volumes")
    @classmethod
    def _mount_paths_differ(cls, volumes: dict[str, Any]) -> dict[str, Any]:
        if repeated := duplicates(each.mount_path for each in volumes.values()):
            raise ValueError(
                f"{', '.join(repeated)} is the mountPath of more than one volume. Use a mountPath"
                " for each volume"
            )
        return volumes
