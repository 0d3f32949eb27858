"""The accelerator table (`accelerators.toml`), by the names that users write, and MIG: NVIDIA
accelerators divided into slices.

All accelerators of a pool have the same MIG profile, with as many slices as fit; the owner of the
nodes divides them. Kubernetes then offers slices as a resource of their own (the device plugin's
strategy `mixed`) instead of whole accelerators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, TypeVar

from inferplan.images.catalogue import default_image
from inferplan.kube.names import MIG_PREFIX
from inferplan.tables import table

Row = TypeVar("Row")
_MI = 2**20
_CAPITAL = re.compile("[A-Z]")
# An accelerator has 7 compute slices and 8 memory slices, from Ampere to Blackwell (NVIDIA MIG user
# guide).
_COMPUTE_SLICES, _MEMORY_SLICES = 7, 8
_PAIR = re.compile(
    r"gaudi-docker/(?P<software>[0-9]+\.[0-9]+\.[0-9]+)/.*/vllm-(?P<engine>[0-9]+\.[0-9]+\.[0-9]+)"
)


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A node taint in the spelling of the Kubernetes API (`NoSchedule`, not `NO_SCHEDULE`)."""

    key: str
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """A vendor of accelerators: a table of `accelerators.toml`, which answers what other code asks.

    The defaults are those of a vendor of which only the resource is known.
    """

    name: str
    resource: str
    taint: Taint
    labels: Mapping[str, str]
    source: str
    read: str
    engines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    runtime_class: str | None = None
    """The runtime class of pods; None if the vendor's runtime is the node's default."""
    images: tuple[str, ...] = ()
    """Prefixes of the names of images that are built for the vendor."""
    device: str = "cpu"
    """PyTorch's name of the devices."""
    ray_resource: str = "GPU"
    """Ray's name of the devices."""
    triton_kind: str | None = None
    """The kind of Triton's instance groups that assigns devices itself; None if each process takes
    the next free device.
    """
    device_class: str | None = None
    """The DeviceClass of whole devices that the vendor's DRA driver creates."""
    partition_class: str | None = None
    """The DeviceClass of its MIG slices."""
    shares_devices: bool = False
    """True if the device plugin can give one device to several containers."""
    writes_root: bool = False
    """True if the vendor's runtime writes into the root file system of containers."""
    warmup_seconds: int = 300
    """The time from loaded weights to the first answer."""
    containers: Mapping[str, Any] = field(default_factory=dict)
    """The `files` below /dev, the driver's file that they need, and options of container engines."""
    visible_devices: str | None = None
    """The variable by which an image claims devices."""
    log_directory: str | None = None
    """A directory of the images that must be writable."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables of a container with accelerators."""
    environment_of_many: Mapping[str, str] = field(default_factory=dict)
    """Further variables of a container with more than one."""
    torch_environment: Mapping[str, str] = field(default_factory=dict)
    """The variables of a program that loads PyTorch itself."""
    vllm_defaults: Mapping[str, str | int | float] = field(default_factory=dict)
    """Engine arguments of vLLM that differ from upstream's defaults."""
    driver_labels: tuple[str, ...] = ()
    """The labels of nodes with the driver's version, the newest first."""
    discovery: str = "feature discovery"
    """The program that sets these labels."""
    compiles_graphs: bool = False
    """True if a start of vLLM compiles graphs, which recipes keep for the next one."""
    spans_nodes: bool = False
    """True if vLLM runs one replica on several nodes."""
    streams: bool = False
    """True if the engines' images have a loader for buckets."""
    ami_types: tuple[str, ...] = ()
    """The AMI types of EKS with the driver, the default first."""
    auto_mode: bool = False
    """True if EKS Auto Mode has the driver."""
    autoscaler_label: bool = False
    """True if the cluster autoscaler knows the devices of an instance type."""

    @property
    def torch_device(self) -> str:
        """The first device as PyTorch addresses it."""
        return "cuda:0" if self.device == "cuda" else self.device


@dataclass(frozen=True, kw_only=True)
class EngineSupport:
    """The support of an engine for an accelerator: `refusal` if it does not run, a default `image`,
    and validated `pairs` of releases.
    """

    image: str | None = None
    refusal: str | None = None
    pairs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One kind of accelerator, or a MIG slice of it. `memory_bytes` is that of one; `labels` are
    those that discovery puts on its nodes.

    `hugepages_2mi_bytes` is the default request of a pod per accelerator; `runtime_class` is None
    if the vendor's runtime is the node's default. `compute` is the CUDA compute capability, None
    for other vendors. At most `sharers` containers use it at a time. `profile` is set for a MIG
    slice. Pods claim it by `device_class`, or request `resource` from a device plugin if that is
    None. `source` and `read` (year-month) name the origin of the row.
    """

    name: str
    title: str
    vendor: Vendor
    resource: str
    memory_bytes: int
    machine: str
    taint: Taint
    labels: Mapping[str, str]
    engines: Mapping[str, EngineSupport]
    precisions: tuple[str, ...]
    source: str
    read: str
    runtime_class: str | None = None
    hugepages_2mi_bytes: int = 0
    compute: str | None = None
    product: str | None = None
    family: str | None = None
    mig: tuple[str, ...] = ()
    note: str = ""
    sharers: int = 1
    profile: str | None = None
    device_class: str | None = None

    def engine(self, name: str) -> EngineSupport:
        """Return the support for engine `name`. An engine that is not in the table is assumed to
        run, with an image that the user sets.
        """
        return self.engines.get(name, EngineSupport())

    def unpaired(self, engine: str, image: str) -> str | None:
        """Return why the two releases in the name of a Habana image do not match; None if they do,
        or the name has none.
        """
        pairs, releases = self.engine(engine).pairs, _PAIR.search(image)
        if (
            not pairs
            or releases is None
            or releases["engine"] in pairs.get(releases["software"], ())
        ):
            return None
        listed = "; ".join(
            f"{', '.join(engines)} on {software}" for software, engines in pairs.items()
        )
        return (
            f"{image!r} pairs {engine} {releases['engine']} with Gaudi software"
            f" {releases['software']}, which vllm-gaudi has not validated; validated are {listed}:"
            " name one of those, or leave image out"
        )

    @property
    def divided(self) -> bool:
        """True for a MIG slice or a share, which cannot work with another one."""
        return self.profile is not None or self.sharers > 1

    def shared(self, sharers: int, *, renamed: bool, divides_memory: bool) -> Accelerator:
        """Return a share as the device plugin offers it, to `sharers` containers a device."""
        return replace(
            self,
            sharers=sharers,
            resource=f"{self.resource}.shared" if renamed else self.resource,
            memory_bytes=self.memory_bytes // (sharers if divides_memory else 1),
        )

    def claimed(self) -> Accelerator:
        """Return the accelerator as pods claim it through DRA: its class takes the place of the
        device plugin's resource.
        """
        whole = self.profile is None
        name = self.vendor.device_class if whole else self.vendor.partition_class
        return self if name is None else replace(self, resource=name, device_class=name)

    @property
    def bfloat16(self) -> bool:
        """True if the accelerator computes in bfloat16; without it vLLM needs `--dtype half`."""
        return "bf16" in self.precisions

    def sliced(self, profile: str) -> Accelerator:
        """Return a MIG slice as the device plugin offers it."""
        return replace(
            self,
            profile=profile,
            resource=f"{MIG_PREFIX}{profile}",
            memory_bytes=_gigabytes(profile) * 2**30,
        )

    def slices(self, profile: str) -> int:
        whole = max(_gigabytes(each) for each in self.mig)
        memory = max(1, round(_gigabytes(profile) * _MEMORY_SLICES / whole))
        return min(_COMPUTE_SLICES // int(profile[0]), _MEMORY_SLICES // memory)

    def mig_error(self, profile: str) -> str | None:
        """Return why the accelerator has no slices of `profile`; None if it has."""
        if not self.mig:
            return (
                f"mig is {profile} and {self.name} cannot be divided. Remove mig, or name an"
                " accelerator that can (A100, H100, H200, B200, ...)."
            )
        if profile in self.mig:
            return None
        largest = max(self.mig, key=_gigabytes)
        size = (
            "is larger than" if _gigabytes(profile) > _gigabytes(largest) else "is not a profile of"
        )
        return (
            f"the slice {profile} {size} {self.name}, which is {largest} as a whole. Use one of"
            f" {', '.join(self.mig)}."
        )


def _gigabytes(profile: str) -> int:
    return int(profile.partition(".")[2].removesuffix("gb"))


def named(name: str, rows: Mapping[str, Row], noun: str) -> Row:
    """Return the row `name` of a table. Raises ValueError with the nearest name and all names."""
    if name in rows:
        return rows[name]
    near = _nearest(name, rows)
    hint = f" Did you mean {near!r}?" if near else ""
    raise ValueError(f"{name[:80]!r} is not a known {noun}.{hint} Allowed: {', '.join(rows)}.")


def _nearest(name: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that `name` most likely means (`h100`, `Gaudi2`, `A100_80GB`), None
    if none is close.
    """
    import difflib

    folded = {_folded(each): each for each in allowed}
    wanted = _folded(name[:80])
    within = [key for key in folded if wanted and wanted in key]
    near = within[:1] or difflib.get_close_matches(wanted, folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def _folded(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def lookup(name: str) -> Accelerator:
    """Return the accelerator `name`. Raises ValueError with the nearest name and all names."""
    return named(name, accelerators(), "accelerator")


def vendor_of_image(image: str) -> str | None:
    """Return the name of the vendor that the image is built for, by its registry; None if unknown."""
    return next(
        (
            each.name
            for each in vendors().values()
            if any(re.match(pattern, image) for pattern in each.images)
        ),
        None,
    )


@cache
def vendors() -> Mapping[str, Vendor]:
    """Return every vendor by name."""
    rows = table("hardware/accelerators.toml")["vendors"]
    return {name: _vendor(name, row) for name, row in rows.items()}


def _vendor(name: str, row: Mapping[str, Any]) -> Vendor:
    values: dict[str, Any] = {"name": name, "taint": Taint(**row["taint"])}
    for key, value in row.items():
        field_name = _CAPITAL.sub(lambda each: f"_{each[0].lower()}", key)
        values.setdefault(field_name, tuple(value) if isinstance(value, list) else value)
    return Vendor(**values)


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Return every row by name, in the table's order; it is read on first use."""
    rows = table("hardware/accelerators.toml")["accelerators"]
    return {name: _accelerator(name, row, vendors()[row["vendor"]]) for name, row in rows.items()}


def _accelerator(name: str, row: dict[str, Any], vendor: Vendor) -> Accelerator:
    text = {
        key: row[key]
        for key in (
            "title",
            "machine",
            "source",
            "read",
            "compute",
            "product",
            "family",
            "note",
        )
        if key in row
    }
    engines = {
        engine: dict(support)
        for engine, support in {**vendor.engines, **row.get("engines", {})}.items()
    }
    for support in engines.values():
        if "image" in support:
            support["image"] = default_image(support["image"])
    return Accelerator(
        name=name,
        vendor=vendor,
        resource=vendor.resource,
        memory_bytes=row["memoryMiB"] * _MI,
        taint=vendor.taint,
        labels={**vendor.labels} | row.get("labels", {}),
        engines={engine: EngineSupport(**support) for engine, support in engines.items()},
        precisions=tuple(row["precisions"]),
        runtime_class=vendor.runtime_class,
        hugepages_2mi_bytes=row.get("hugepages2MiMiB", 0) * _MI,
        mig=tuple(row.get("mig", ())),
        **text,
    )
