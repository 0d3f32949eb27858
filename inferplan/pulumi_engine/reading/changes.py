"""Property changes of one resource, from the provider's detailed diff or from the inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from inferplan.documents.text import clean
from inferplan.kube.differences import Parts, differences, parts_by_index
from inferplan.kube.paths import MISSING, Path, leaves, order_of, parse, text_of
from inferplan.pulumi_engine.reading.events import PropertyDiff, State, Step
from inferplan.pulumi_engine.reading.values import COMPUTED, SECRET, decoded, show, veil, veil_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """One property: its path, what it was and what it becomes in words, and whether it causes a
    replacement.
    """

    path: str
    old: str
    new: str
    replaces: bool = False


def property_changes(step: Step) -> tuple[PropertyChange, ...]:
    """The properties of `step`, in the order of their paths; all of them for a resource that comes
    or goes.
    """
    if step.op in ("create", "import", "read"):
        return tuple(_whole(step.new_inputs, step.type, old=False))
    if step.op in ("delete", "discard"):
        return tuple(_whole(step.old_inputs, step.type, old=True))
    return tuple(_detailed(step) if step.detailed_diff else _compared(step))


def output_changes(old: dict[str, Any], new: dict[str, Any]) -> tuple[PropertyChange, ...]:
    return tuple(_pairs(old, new))


def _whole(inputs: dict[str, Any], type_: str, *, old: bool) -> Iterator[PropertyChange]:
    for path, value in sorted(_leaves(veil(inputs, type_), ()), key=lambda leaf: order_of(leaf[0])):
        text = show(value)
        yield PropertyChange(path=_spelled(path), old=text if old else "", new="" if old else text)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    elif path:
        yield path, value


def _detailed(step: Step) -> Iterator[PropertyChange]:
    entries = [(_path_or_none(text), text, diff) for text, diff in step.detailed_diff.items()]
    for path, text, diff in sorted(entries, key=lambda entry: order_of(entry[0] or (entry[1],))):
        old, new = _sides(step, path, diff) if path else (MISSING, MISSING)
        yield from _opened(clean(text), old, new, diff.kind)


def _sides(step: Step, path: Path, diff: PropertyDiff) -> tuple[Any, Any]:
    def value(state: State | None, part: str) -> Any:
        return veil_at((getattr(state, part) if state else None) or {}, path, step.type)

    # As the CLI does: the old value is read from the inputs when the diff is one of inputs, else
    # from the state.
    first, second = ("inputs", "outputs") if diff.input_diff else ("outputs", "inputs")
    old = value(step.old, first)
    return value(step.old, second) if old is MISSING else old, value(step.new, "inputs")


def _change(path: str, old: Any, new: Any, kind: str) -> PropertyChange:
    is_added, is_deleted = kind.startswith("add"), kind.startswith("delete")
    texts = ["" if is_added else show(old), "" if is_deleted else show(new)]
    if old == SECRET and not is_deleted:
        texts[1] = new.text if new == COMPUTED else f"{SECRET.text} (changed)"
    if new == SECRET and not is_added:
        # A value that becomes a secret counts as one already, so its old value is not shown either.
        texts = [SECRET.text, f"{SECRET.text} (changed)"]
    return PropertyChange(path=path, old=texts[0], new=texts[1], replaces=kind.endswith("-replace"))


def _compared(step: Step) -> Iterator[PropertyChange]:
    changes = list(_pairs(step.old_inputs, step.new_inputs, step.type, frozenset(step.keys)))
    paths = {change.path for change in changes}
    yield from changes
    for text in (*step.keys, *step.diffs):
        # The engine saw a change although both sides look the same, so a secret changed.
        if not any(path == text or path.startswith((f"{text}.", f"{text}[")) for path in paths):
            paths.add(text)
            path = _path_or_none(text)
            hidden = path is not None and _holds_secret(veil_at(step.new_inputs, path, step.type))
            words = (
                ("secret", "secret (changed)")
                if hidden
                else ("", "changed (the engine sent no values)")
            )
            yield PropertyChange(
                path=clean(text), old=words[0], new=words[1], replaces=text in step.keys
            )


def _pairs(
    old: Any, new: Any, type_: str = "", keys: frozenset[str] = frozenset()
) -> Iterator[PropertyChange]:
    for path in _differing(old, new):
        before, after = veil_at(old, path, type_), veil_at(new, path, type_)
        text = _spelled(path)
        yield from _opened(
            text,
            before,
            after,
            _kind(before, after, replaces=text in keys or text.split(".")[0] in keys),
        )


def _kind(old: Any, new: Any, *, replaces: bool) -> str:
    """The engine's word for a change from `old` to `new`."""
    return f"{'add' if old is MISSING else 'delete' if new is MISSING else 'update'}{'-replace' if replaces else ''}"


def _opened(path: str, old: Any, new: Any, kind: str) -> Iterator[PropertyChange]:
    """One change, or what changes inside of it where both sides are JSON in a string."""
    before, after = (decoded(each) if isinstance(each, str) else each for each in (old, new))
    if before is old or after is new or type(before) is not type(after):
        yield _change(path, old, new, kind)
        return
    replaces = kind.endswith("-replace")
    inside = _differing(before, after)
    if not inside:
        yield PropertyChange(
            path=path, old="JSON", new="the same JSON, written differently", replaces=replaces
        )
        return
    for part in inside if () not in inside else [()]:
        was, will = (veil_at(each, part) for each in (before, after))
        within = _spelled(part)
        dot = "" if within.startswith("[") or not within else "."
        yield _change(f"{path}{dot}{within}", was, will, _kind(was, will, replaces=replaces))


def _differing(old: Any, new: Any) -> list[Path]:
    """The paths at which `old` and `new` differ, as deep as both are maps or lists, in order."""
    return sorted((path for path, _, _ in differences(old, new, parts=_parts)), key=order_of)


def _parts(old: Any, new: Any) -> Parts | None:
    """The parts of two maps, or of two lists of the same length of which some items have parts."""
    if isinstance(old, list) and not any(isinstance(item, dict | list) for item in old):
        return None
    return parts_by_index(old, new)


def _holds_secret(value: Any) -> bool:
    return any(each == SECRET for _, each in leaves(value))


def _spelled(path: Path) -> str:
    return clean(text_of(path))


def _path_or_none(text: str) -> Path | None:
    try:
        return parse(text)
    except ValueError:
        return None
