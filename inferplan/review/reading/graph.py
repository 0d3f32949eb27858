"""A picture of the components that change: a mermaid graph, or a tree in text where there are too
many for a graph.
"""

from collections import Counter
from dataclasses import dataclass

from inferplan.documents.text import clean
from inferplan.pulumi_engine.reading.events import STACK_TYPE, kind_of, name_of, type_of
from inferplan.review.reading.preview import Preview, StepSummary

MAX_NODES = 40
MAX_EDGES = 80
_NEW = "fill:#dafbe1,stroke:#1a7f37,color:#0a3418"
_GONE = "fill:#ffebe9,stroke:#cf222e,color:#4c0014"
# Sign and colours of each operation, the worst first.
_OPERATIONS = {
    "delete": ("-", _GONE),
    "discard": ("-", _GONE),
    "replace": ("±", "fill:#fbefff,stroke:#8250df,color:#2e1461"),
    "update": ("~", "fill:#fff8c5,stroke:#9a6700,color:#3b2300"),
    "import": ("=", _NEW),
    "create": ("+", _NEW),
}
_WORST = tuple(_OPERATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A component that changes, or a resource outside of any; `inside` counts what changes in it."""

    key: str
    kind: str
    name: str
    op: str
    inside: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Changed components and which of them leads to which."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]

    @property
    def drawable(self) -> bool:
        """True if the graph is small enough for mermaid."""
        return 0 < len(self.nodes) <= MAX_NODES and len(self.edges) <= MAX_EDGES


def graph_of(preview: Preview) -> Graph:
    """The graph of `preview`. Edges are dependencies, as far as the stream tells them."""
    by_urn = {step.urn: step for step in preview.steps}
    tops = {
        step.urn: component_of(step, by_urn).urn
        for step in preview.steps
        if step.type != STACK_TYPE
    }
    groups: dict[str, list[StepSummary]] = {}
    for step in preview.changed:
        if step.urn in tops:
            groups.setdefault(tops[step.urn], []).append(step)
    order = {
        top: index
        for index, top in enumerate(
            sorted(groups, key=lambda urn: (type_of(urn), name_of(urn), urn))
        )
    }
    edges = {
        (order[tops[other]], order[top])
        for step in preview.steps
        if (top := tops.get(step.urn)) in order
        for other in (step.side.dependencies if step.side else ())
        if tops.get(other) in order and tops[other] != top
    }
    nodes = tuple(
        _node(f"n{index}", top, groups[top], by_urn.get(top)) for top, index in order.items()
    )
    return Graph(nodes=nodes, edges=tuple((f"n{start}", f"n{end}") for start, end in sorted(edges)))


def component_of(step: StepSummary, by_urn: dict[str, StepSummary]) -> StepSummary:
    """The component below the stack that `step` belongs to; itself when it is one."""
    seen = {step.urn}
    while (
        (above := by_urn.get(step.parent)) is not None
        and above.type != STACK_TYPE
        and above.urn not in seen
    ):
        step = above
        seen.add(step.urn)
    return step


def _node(key: str, urn: str, steps: list[StepSummary], top: StepSummary | None) -> Node:
    ops = {step.op for step in steps}
    own = top.op if top is not None else "update"
    if own in ("same", "read") or (own == "update" and ops & {"delete", "replace"}):
        own = next((op for op in _WORST if op in ops), own)
    inside = Counter((step.op, clean(step.kind)) for step in steps if step.urn != urn)
    entries = sorted(
        inside.items(),
        key=lambda item: (_WORST.index(item[0][0]) if item[0][0] in _WORST else 9, item[0][1]),
    )
    counts = tuple((op, kind, count) for (op, kind), count in entries)
    return Node(
        key=key,
        kind=clean(kind_of(type_of(urn))),
        name=clean(name_of(urn)),
        op=clean(own),
        inside=counts,
    )


def mermaid(graph: Graph) -> str:
    """The graph in mermaid's language; labels hold nothing that it could take for syntax."""
    lines = ["flowchart LR"]
    ops = {node.key: node.op if node.op in _WORST else "update" for node in graph.nodes}
    for node in graph.nodes:
        parts = [f"{_sign(node.op)} <b>{_label(node.name)}</b>", _label(node.kind)]
        parts += [
            f"{_sign(op)} {_label(kind)}{f' x{count}' if count > 1 else ''}"
            for op, kind, count in node.inside[:6]
        ]
        parts += [f"… {len(node.inside) - 6} more kinds"] if len(node.inside) > 6 else []
        lines.append(f'  {node.key}["{"<br/>".join(parts)}"]:::{ops[node.key]}')
    lines += [f"  {start} --> {end}" for start, end in graph.edges]
    lines += [
        f"  classDef {op} {style}"
        for op, (_, style) in reversed(_OPERATIONS.items())
        if op in ops.values()
    ]
    return "\n".join(lines)


def tree(graph: Graph) -> list[str]:
    return [
        f"{_sign(node.op)} {node.kind} {node.name}"
        + "".join(f"  {_sign(op)}{count} {kind}" for op, kind, count in node.inside)
        for node in graph.nodes
    ]


def _sign(op: str) -> str:
    return _OPERATIONS[op][0] if op in _OPERATIONS else "·"


def _label(text: str) -> str:
    short = text if len(text) <= 48 else f"{text[:45]}..."
    return "".join(
        char if char.isalnum() or char in " -_./:" else f"#{ord(char)};" for char in short
    )
