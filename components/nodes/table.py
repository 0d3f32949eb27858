"""The page docs/accelerators.md, written from the tables so that it cannot say anything else.

`python -m components.nodes.table > docs/accelerators.md` writes it anew.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from components.nodes import accelerators, machines
from components.nodes.spec import CPU_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from components.nodes.accelerators import Accelerator, EngineSupport
    from components.nodes.machines import Machine

_GI = 2**30

_INTRO = """# Accelerators and machines

<!-- Written by `python -m components.nodes.table > docs/accelerators.md` from components/nodes/accelerators.toml and
machines.csv; a test fails when it is out of date. -->

A pool names an accelerator of the first table (`accelerator: nvidia-l40s`), and where it matters a machine of the last
one (`machine: g6e.12xlarge`). Anything else is refused, with the nearest name. To add hardware, add a row with its source.
"""

_ENGINES = """## Engines

An engine that is not listed for a card is taken to run there with an image that the model names. Tags follow each
project's published naming; whether a registry holds a tag is not checked from here.
"""

_MACHINES = f"""## Machines

`allocatable` is what a node offers to pods: nominal memory less 7.5% (hypervisor and kernel), 255 MiB and 11 MiB for each
pod that the node may take, 100 MiB for eviction, and all huge pages; CPU less 6% of the first core, 1% of the second, 0.5%
of the next two and 0.25% of the rest. That is what EKS reserves (awslabs/amazon-eks-ami and
aws/karpenter-provider-aws, read 2026-08). Where your nodes differ, give `machine` the figures that
`kubectl get node NAME -o jsonpath='{{.status.allocatable}}'` prints. A pool without an accelerator gets `{CPU_MACHINE}`
unless it names a machine.
"""


def markdown() -> str:
    """The whole page."""
    rows = accelerators.accelerators().values()
    parts = (
        _INTRO,
        "## Accelerators\n",
        _hardware(rows),
        "## Scheduling\n",
        _scheduling(rows),
        _ENGINES,
        _engines(rows),
        _MACHINES,
        _machines(machines.machines().values()),
        "## Sources\n",
        _sources(rows),
    )
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _hardware(rows: Iterable[Accelerator]) -> str:
    return _table(
        ("name", "card", "memory GiB", "computes in", "CUDA capability", "MIG profiles", "usual machine", "note"),
        [
            (
                f"`{row.name}`",
                row.title,
                f"{row.memory_bytes / _GI:.1f}",
                " ".join(row.precisions),
                row.compute or "",
                " ".join(row.mig),
                f"`{row.machine}`",
                row.note,
            )
            for row in rows
        ],
    )


def _scheduling(rows: Iterable[Accelerator]) -> str:
    return _table(
        ("names", "resource", "taint", "runtime class", "2 MiB huge pages a card", "labels that discovery sets"),
        _grouped(
            (
                row.name,
                f"`{row.resource}`",
                f"`{row.taint.key}={row.taint.value}:{row.taint.effect}`",
                f"`{row.runtime_class}`" if row.runtime_class else "the node's default",
                f"{row.hugepages_2mi_bytes // 2**20}Mi" if row.hugepages_2mi_bytes else "",
                " ".join(f"`{key}={value}`" for key, value in row.labels.items()),
            )
            for row in rows
        ),
    )


def _engines(rows: Iterable[Accelerator]) -> str:
    support = ((row.name, engine, _default_image(found)) for row in rows for engine, found in row.engines.items())
    return _table(("names", "engine", "default image"), _grouped(support))


def _default_image(support: EngineSupport) -> str:
    if support.refusal:
        return f"refused: {support.refusal}"
    return f"`{support.image}`" if support.image else "none: a model names one under `image`"


def _machines(rows: Iterable[Machine]) -> str:
    return _table(
        ("name", "provider", "accelerator", "cards", "vCPU", "memory GiB", "NVMe GB", "EFA", "huge pages GiB", "allocatable"),
        [
            (
                f"`{row.name}`",
                row.provider,
                f"`{row.accelerator}`" if row.accelerator else "",
                str(row.cards or ""),
                str(row.cpu),
                str(row.memory_bytes // _GI),
                str(row.nvme_bytes // 10**9 or ""),
                str(row.efa or ""),
                f"{row.hugepages_2mi_bytes / _GI:.1f}" if row.hugepages_2mi_bytes else "",
                _allocatable(row),
            )
            for row in rows
        ],
    )


def _allocatable(row: Machine) -> str:
    left = machines.allocatable(row)
    return f"{left.cpu_millicores}m, {left.memory_bytes // 2**20}Mi"


def _sources(rows: Iterable[Accelerator]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for row in (*rows, *machines.machines().values()):
        found.setdefault((row.source, row.read), []).append(f"`{row.name}`")
    return "\n".join(f"- {', '.join(names)}: {source} (read {read})" for (source, read), names in found.items())


def _grouped(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows that differ in their first cell only, as one row; the order is that of first appearance."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows:
        names.setdefault(tuple(rest), []).append(f"`{name}`")
    return [(" ".join(group), *rest) for rest, group in names.items()]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
