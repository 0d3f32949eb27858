"""The one hardware table: accelerators by the name that users write.

The rows are data beside this module (`accelerators.toml`), read on first use and then kept.
It knows no price, no live node and no driver version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from components.nodes.names import named
from images.catalogue import default_image

Vendor = Literal["nvidia", "habana"]
_MI = 2**20
_PAIR = re.compile(r"gaudi-docker/(?P<software>[0-9]+\.[0-9]+\.[0-9]+)/.*/vllm-(?P<engine>[0-9]+\.[0-9]+\.[0-9]+)")


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A node taint in the spelling of the Kubernetes API (`NoSchedule`, not `NO_SCHEDULE`)."""

    key: str
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, kw_only=True)
class EngineSupport:
    """Whether an engine runs on an accelerator. `refusal` is the reason when it does not, `image` the default image if there is one."""

    image: str | None = None
    refusal: str | None = None
    pairs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Releases of the engine by the release of the vendor's software that they are made for; empty where any will do."""


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One kind of accelerator card. `memory_bytes` is per card; `labels` are what discovery puts on its nodes.

    `hugepages_2mi_bytes` is what a pod asks for per card unless its spec says more; `runtime_class` is None
    where the vendor's runtime is the node's default. `compute` is the CUDA compute capability, None off NVIDIA.
    `source` and `read` (year-month) say where the row comes from.
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

    def engine(self, name: str) -> EngineSupport:
        """Support for engine `name`; an engine that the table does not list is taken to run, with an image that the user names."""
        return self.engines.get(name, EngineSupport())

    def unpaired(self, engine: str, image: str) -> str | None:
        """What is wrong with the two releases that the name of an image of Habana's shows, None when nothing is or it shows none."""
        pairs, shown = self.engine(engine).pairs, _PAIR.search(image)
        if not pairs or shown is None or shown["engine"] in pairs.get(shown["software"], ()):
            return None
        listed = "; ".join(f"{', '.join(engines)} on {software}" for software, engines in pairs.items())
        return (
            f"{image!r} pairs {engine} {shown['engine']} with Gaudi software {shown['software']}, which vllm-gaudi has not validated; "
            f"validated are {listed}: name one of those, or leave image out"
        )

    @property
    def divided(self) -> bool:
        """Whether this is a slice of a card (MIG), which has no link to any other slice."""
        return self.resource.startswith("nvidia.com/mig-")

    @property
    def bfloat16(self) -> bool:
        """Whether the card computes in bfloat16; without it vLLM needs `--dtype half`."""
        return "bf16" in self.precisions


def lookup(name: str) -> Accelerator:
    """The accelerator called `name`. Raises ValueError naming the nearest name and every allowed one."""
    return named(name, accelerators(), "accelerator")


def vendor_of_image(image: str) -> Vendor | None:
    """The vendor whose cards the image is built for, as its registry tells, None where that tells nothing."""
    return next((vendor for vendor, prefixes in _table()["images"].items() if image.startswith(tuple(prefixes))), None)


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every row of the accelerator table by name, in the table's order."""
    data = _table()
    return {name: _accelerator(name, row, data["vendors"][row["vendor"]]) for name, row in data["accelerators"].items()}


@cache
def _table() -> dict[str, Any]:
    import tomllib

    with Path(__file__).with_name("accelerators.toml").open("rb") as table:
        return tomllib.load(table)


def _accelerator(name: str, row: dict[str, Any], vendor: dict[str, Any]) -> Accelerator:
    taint = vendor["taint"]
    engines = vendor["engines"] | row.get("engines", {})
    return Accelerator(
        name=name,
        title=row["title"],
        vendor=row["vendor"],
        resource=vendor["resource"],
        memory_bytes=row["memoryMiB"] * _MI,
        machine=row["machine"],
        taint=Taint(key=taint["key"], value=taint["value"], effect=taint["effect"]),
        labels=vendor["labels"] | row.get("labels", {}),
        engines={engine: _support(support) for engine, support in engines.items()},
        precisions=tuple(row["precisions"]),
        source=row["source"],
        read=row["read"],
        runtime_class=vendor.get("runtimeClass"),
        hugepages_2mi_bytes=row.get("hugepages2MiMiB", 0) * _MI,
        compute=row.get("compute"),
        product=row.get("product"),
        family=row.get("family"),
        mig=tuple(row.get("mig", ())),
        note=row.get("note", ""),
    )


def _support(row: dict[str, Any]) -> EngineSupport:
    image = row.get("image")
    return EngineSupport(image=None if image is None else default_image(image), refusal=row.get("refusal"), pairs=row.get("pairs", {}))
