"""A platform as a picture: consumers, gateway and routes, pools with their nodes and models, and
stores. It is laid out here and drawn by a template, once wide and once for a narrow screen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from inferplan.documents.templates import template
from inferplan.kube.facts import Subjects
from inferplan.review.rendering.shapes import Box, Cell, Line
from inferplan.review.verdict import plural

WIDE, NARROW = 1080, 340
"""Widths in CSS pixels."""
_LINE, _PADDING, _GAP, _HEAD = 17, 8, 10, 26
_CHARACTER = 7.3  # the widest of common monospace fonts at 12 px
_MOST_DETAILED_NODES = 16
_COLOURS = (
    ".platform { --back: #fff; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --panel: #f6f8fa;"
    " --red: #cf222e; --orange: #9a6700; --green: #1a7f37; --link: #0969da; background: var(--back) }"
)
# Colours say the same, but not on grey paper or to every eye.
_SIGNS = {"new": "+ ", "changed": "~ ", "gone": "- "}
_MOST_LINES = 120
"""Above that many lines nothing can be followed, so they appear for one box at a time."""


@dataclass(slots=True)
class Picture:
    title: str
    width: int
    height: float = 0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    @property
    def is_wide(self) -> bool:
        return self.width > NARROW

    @property
    def is_crowded(self) -> bool:
        return len(self.lines) > _MOST_LINES

    def svg(self) -> Markup:
        page = template(
            "review/templates/platform.svg.j2",
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        return Markup(page.render(picture=self, line=_LINE, padding=_PADDING))  # noqa: S704 - the template escapes


@dataclass(frozen=True, slots=True)
class Platform:
    """The facts of one side of a change, and those of the other side to mark what differs."""

    facts: Subjects
    other: Subjects | None = None
    gone: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    """The state of a subject, by the key of its box."""

    def of_kind(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        return [(name, each) for (what, name), each in self.facts.items() if what == kind]

    def change(self, kind: str, name: str) -> str:
        if self.other is None:
            return "same"
        if (kind, name) not in self.other:
            return "gone" if self.gone else "new"
        return "same" if self.other[kind, name] == self.facts[kind, name] else "changed"

    def has(self, kind: str, name: str, key: str, value: str) -> bool:
        """Return whether the other side has `value` in the list `key` too."""
        return self.other is None or value in self.other.get((kind, name), {}).get(key, ())


def pictures(
    title: str, before: Subjects, after: Subjects, notes: Mapping[str, str] | None = None
) -> list[tuple[str, Markup, Markup]]:
    """Return a caption and the wide and the narrow SVG for each side of a change: one for a stack
    that is new, removed or unchanged.
    """
    sides = [
        ("Before", Platform(before, after, gone=True)),
        ("After", Platform(after, before)),
    ]
    if not before or not after or before == after:
        sides = [("", Platform(after or before, notes=notes or {}))]
    return [
        (caption, _svg(caption, title, side, WIDE), _svg(caption, title, side, NARROW))
        for caption, side in sides
        if side.facts
    ]


def _svg(caption: str, title: str, side: Platform, width: int) -> Markup:
    return _laid_out(f"{caption} {title}".strip(), side, width).svg()


def as_file(title: str, before: Subjects, after: Subjects) -> str:
    """Return the wide picture of the newest side as an SVG document that needs no page around it."""
    style = template("review/templates/platform.css.j2").render()
    *_, (_, wide, _) = pictures(title, before, after)
    head, _, rest = str(wide).partition(">")
    return f"{head}><style>{_COLOURS}{style}.platform.wide {{ display: block !important }}</style>{rest}"


def _laid_out(title: str, platform: Platform, width: int) -> Picture:
    picture = Picture(title, width)
    if width == NARROW:
        y: float = 0
        for make in (_consumers, _gateway, _pools, _stores):
            y = make(picture, platform, 0, y, NARROW)
        picture.height = y
        return picture
    columns = ((_consumers, 0, 190), (_gateway, 240, 210), (_pools, 500, 350), (_stores, 900, 180))
    picture.height = max(make(picture, platform, x, 0, room) for make, x, room in columns)
    picture.lines.extend(_lines(picture, platform))
    return picture


def _fitted(text: str, width: float) -> str:
    most = int((width - 2 * _PADDING) / _CHARACTER)
    return text if len(text) <= most else text[: most - 1] + "…"


def _box(
    platform: Platform,
    kind: str,
    name: str,
    lines: Iterable[str],
    place: tuple[float, float, float],
) -> Box:
    x, y, width = place
    # A router is a part of its model.
    change = platform.change("model" if kind == "router" else kind, name)
    texts = [each for each in (*lines, platform.notes.get(f"{kind} {name}")) if each]
    return Box(
        key=f"{kind} {name}",
        kind=kind,
        x=x,
        y=y,
        width=width,
        height=2 * _PADDING + _LINE * (1 + len(texts)),
        title=_fitted(f"{_SIGNS.get(change, '')}{name}", width),
        lines=tuple(_fitted(each, width) for each in texts),
        change=change,
        full="; ".join([f"{kind} {name}", *texts, *([] if change == "same" else [change])]),
    )


def _column(
    picture: Picture,
    platform: Platform,
    subjects: Iterable[tuple[str, str, Iterable[str]]],
    place: tuple[float, float, float],
) -> float:
    """Draw a box for each kind, name and lines of `subjects`, one below the other. Return where the
    next one begins.
    """
    x, y, width = place
    for kind, name, lines in subjects:
        box = _box(platform, kind, name, lines, (x, y, width))
        picture.boxes.append(box)
        y += box.height + _GAP
    return y


def _limits(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts.get("requestsPerMinute"):
        yield f"{facts['requestsPerMinute']} requests/min"
    if facts.get("concurrentRequests"):
        yield f"{facts['concurrentRequests']} at once"
    yield plural(len(facts.get("keys", ())), "key")


def _consumers(picture: Picture, platform: Platform, x: float, y: float, width: float) -> float:
    subjects = (
        ("consumer", name, [", ".join(_limits(facts))])
        for name, facts in platform.of_kind("consumer")
    )
    return _column(picture, platform, subjects, (x, y, width))


def _gateway(picture: Picture, platform: Platform, x: float, y: float, width: float) -> float:
    gateways = (
        (
            "gateway",
            name,
            [
                f"{facts.get('scheme', 'http')}://{facts.get('host') or facts.get('entryPoint', '')}",
                "open to the internet" if facts.get("internet") else "not on the internet",
                f"{facts.get('implementation', '')}, {plural(facts.get('replicas', 1), 'replica')}",
            ],
        )
        for name, facts in platform.of_kind("gateway")
    )
    routes = (
        ("route", name, [f"{share:g}% {model}" for model, share in facts.get("shares", {}).items()])
        for name, facts in platform.of_kind("route")
    )
    routers = (
        ("router", name, [f"{router['policy']}, {plural(router['replicas'], 'replica')}"])
        for name, facts in platform.of_kind("model")
        if (router := facts.get("router"))
    )
    return _column(picture, platform, (*gateways, *routes, *routers), (x, y, width))


def _between(facts: Mapping[str, Any], least: str, most: str, noun: str) -> str:
    """Return "2 nodes", or "2 to 4 nodes"."""
    low, high = facts.get(least, 0), facts.get(most, facts.get(least, 0))
    return plural(low, noun) if low == high else f"{low} to {high} {noun}s"


def _model_lines(facts: Mapping[str, Any], *, narrow: bool) -> Iterator[str]:
    accelerators = facts.get("accelerators", 0)
    size = f" x {plural(accelerators, 'accelerator')}" if accelerators else ""
    replicas = _between(facts, "replicas", "maxReplicas", "replica")
    yield f"{facts.get('engine', '')}, {replicas}{size}"
    if narrow:
        yield f"called by {', '.join(facts.get('consumers', ())) or 'no consumer'}"
    weights = facts.get("weights") or {}
    preheat = facts.get("preheat", {}).get("into")
    if narrow and weights.get("store"):
        yield f"weights from {weights['store']}" + (f" through {preheat}" if preheat else "")


def _pools(picture: Picture, platform: Platform, x: float, y: float, width: float) -> float:
    models: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, facts in platform.of_kind("model"):
        models.setdefault(facts.get("pool", ""), []).append((name, facts))
    pools = platform.of_kind("pool")
    known = {name for name, _ in pools}
    for name, facts in [*pools, *((each, {}) for each in models if each not in known)]:
        inside = models.get(name, [])
        top = y
        cells, cells_height = _cells(facts, inside, x + _PADDING, y + _HEAD + _LINE + 4, width - 2 * _PADDING)  # fmt: skip
        y += _HEAD + _LINE + 4 + cells_height + (_GAP if cells else 0)
        models_inside = (
            ("model", model, _model_lines(each, narrow=width == NARROW)) for model, each in inside
        )
        y = _column(picture, platform, models_inside, (x + _PADDING, y, width - 2 * _PADDING))
        nodes = _between(facts, "minNodes", "maxNodes", "node")
        machines = " or ".join(facts.get("machines", ())) or facts.get("provider", "")
        parts = (
            [nodes, machines, facts.get("accelerator") or "no accelerator"]
            if facts
            else ["of another stack"]
        )
        text = platform.notes.get(f"pool {name}") or ", ".join(each for each in parts if each)
        # Before its models, so that they are drawn on top of it.
        picture.boxes.insert(
            len(picture.boxes) - len(inside),
            Box(
                key=f"pool {name}",
                kind="pool",
                x=x,
                y=top,
                width=width,
                height=y - top + (0 if inside else _PADDING),
                title=_fitted(name or "no pool", width),
                lines=(_fitted(text, width),),
                change=platform.change("pool", name) if facts else "same",
                cells=cells,
                full=f"pool {name}; {text}",
            ),
        )
        y += _GAP + _PADDING
    return y


def _cells(
    facts: Mapping[str, Any],
    models: Sequence[tuple[str, Mapping[str, Any]]],
    x: float,
    y: float,
    width: float,
) -> tuple[tuple[Cell, ...], float]:
    """Return a cell for each accelerator, node by node, or for each node of a pool that is large or
    has none; and their height.
    """
    least, most = facts.get("minNodes", 0), max(facts.get("maxNodes", 0), facts.get("minNodes", 0))
    per_node = facts.get("accelerators", 0)
    used = sum(each.get("accelerators", 0) * each.get("replicas", 0) for _, each in models)
    detailed = 0 < most <= _MOST_DETAILED_NODES and per_node > 0
    if not detailed:
        used = -(-used // per_node) if per_node else 0
    size, pitch, inside = (8, 10, per_node) if detailed else (7, 9, 1)
    block = inside * pitch + (6 if detailed else 0)
    per_row = max(1, int(width // block))
    cells = [
        Cell(
            x=x + (node % per_row) * block + index * pitch,
            y=y + (node // per_row) * (pitch + 4),
            size=size,
            use="used" if node * inside + index < used else "free" if node < least else "later",
        )
        for node in range(most)
        for index in range(inside)
    ]
    return tuple(cells), -(-most // per_row) * (pitch + 4) if most else 0


def _stores(picture: Picture, platform: Platform, x: float, y: float, width: float) -> float:
    subjects = (
        ("store", name, [facts.get("type", ""), facts.get("location", "")])
        for name, facts in platform.of_kind("store")
    )
    return _column(picture, platform, subjects, (x, y, width))


def _lines(picture: Picture, platform: Platform) -> Iterator[Line]:
    boxes = {each.key: each for each in picture.boxes}
    for kind in ("model", "route"):
        for name, facts in platform.of_kind(kind):
            target = f"{kind} {name}"
            for each in facts.get("consumers", ()):
                kept = platform.has(kind, name, "consumers", each)
                change = "same" if kept else "gone" if platform.gone else "new"
                yield from _line(boxes, f"consumer {each}", target, change)
            for model in (*facts.get("shares", {}), *facts.get("testing", ())):
                yield from _line(boxes, target, f"model {model}", platform.change("route", name))
    for name, facts in platform.of_kind("model"):
        places = [(facts.get("weights") or {}).get("store"), facts.get("preheat", {}).get("into")]
        yield from _line(boxes, f"router {name}", f"model {name}", platform.change("model", name))
        for store in dict.fromkeys(each for each in places if each):
            change = platform.change("model", name)
            yield from _line(boxes, f"model {name}", f"store {store}", "same" if change == "changed" else change)  # fmt: skip


def _line(boxes: Mapping[str, Box], start: str, end: str, change: str) -> Iterator[Line]:
    if start in boxes and end in boxes:
        one, other = boxes[start], boxes[end]
        x1, y1 = one.x + one.width, one.y + one.height / 2
        x2, y2 = other.x, other.y + other.height / 2
        bend = max(30.0, (x2 - x1) / 2)
        path = f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
        yield Line(start=start, end=end, path=path, change=change)
