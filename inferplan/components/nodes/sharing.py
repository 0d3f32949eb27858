"""Sharing of accelerators by the device plugin of a pool's nodes, in the words of NVIDIA's
plugin (k8s-device-plugin v0.20.0, README, read 2026-11).
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from inferplan.components.spec import Spec, rule


class Replicas(Spec):
    """The shares of each device."""

    replicas: Annotated[int, Field(ge=2, le=48)]
    """Containers that may have one device at a time."""
    rename_by_default: bool = False
    """True if the plugin offers shares as `nvidia.com/gpu.shared`, false if as `nvidia.com/gpu`."""


class SharingSpec(Spec):
    """Sharing as the plugin's configuration declares it, with exactly one way."""

    time_slicing: Replicas | None = None
    """Containers take turns. Nothing divides the memory of the device, so each server has to limit
    its own.
    """
    mps: Replicas | None = None
    """Containers run at once through MPS, which gives each an equal part of memory and threads."""
    between_consumers: bool = False
    """True lets models of different consumers share a device. Nothing isolates their faults and
    times, and with time slicing not their memory.
    """

    @rule
    def _one_way(self) -> Iterator[str]:
        if (self.time_slicing is None) == (self.mps is None):
            yield (
                "Devices are shared by one of timeSlicing and mps. Write timeSlicing: {replicas: 2} or"
                " mps: {replicas: 2}."
            )

    @property
    def way(self) -> Replicas:
        return next(each for each in (self.time_slicing, self.mps) if each is not None)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that the discovery adds to nodes."""
        return {
            "nvidia.com/gpu.sharing-strategy": "mps"
            if self.time_slicing is None
            else "time-slicing",
            "nvidia.com/gpu.replicas": str(self.way.replicas),
        }
