"""Writes the page of accelerators and instance types from their tables: `python -m
inferplan.components.nodes.table docs/reference/accelerators.md`.
"""

import sys
from collections.abc import Hashable, Iterable
from pathlib import Path

from inferplan.components.nodes.pool import CPU_MACHINE
from inferplan.documents.templates import template
from inferplan.hardware import machines
from inferplan.hardware.accelerators import Accelerator, accelerators


def markdown() -> str:
    rows, types = accelerators().values(), machines.machines().values()
    page = template(
        "components/nodes/accelerators.md.j2",
        filters=(("cell", lambda text: text.replace("|", "&#124;")),),
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return page.render(
        accelerators=rows,
        scheduling=_grouped((each.name, _scheduling(each)) for each in rows),
        engines=_grouped(
            (each.name, (engine, of.refusal, of.image))
            for each in rows
            for engine, of in each.engines.items()
        ),
        machines=types,
        sources=_grouped((each.name, (each.source, each.read)) for each in (*rows, *types)),
        allocatable=machines.allocatable,
        default_machine=CPU_MACHINE,
        GI=2**30,
    )


def _scheduling(row: Accelerator) -> Hashable:
    return (
        row.resource,
        row.taint,
        row.runtime_class,
        row.hugepages_2mi_bytes,
        tuple(row.labels.items()),
    )


def _grouped(rows: Iterable[tuple[str, Hashable]]) -> Iterable[tuple[str, Hashable]]:
    """Return the rows by their content, in the order of first appearance, each with the names that
    have it.
    """
    names: dict[Hashable, list[str]] = {}
    for name, row in rows:
        names.setdefault(row, []).append(f"`{name}`")
    return [(" ".join(group), row) for row, group in names.items()]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(markdown(), encoding="utf-8")
