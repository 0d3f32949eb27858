"""The verdict of this installation's policy pack on the resources of engine events. A change can
edit the pack that judges it, and what that pack states, but not the pack that makes its report.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from inferplan.kube.marks import SECRET, SIGNATURE, UNKNOWN_TEXT
from inferplan.kube.paths import mapping
from inferplan.planning.violation_formats import PACK, policy_events, read_rule
from inferplan.policies.engine.fields import UNKNOWN, Field, UnseenFieldError
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import State
from inferplan.policies.engine.settings import Settings, SettingsError, today
from inferplan.policies.engine.settings_reader import parse_settings
from inferplan.pulumi_engine.reading.events import STACK_TYPE, PolicyEvent, name_of
from inferplan.pulumi_engine.reading.records import records
from inferplan.pulumi_engine.reading.values import FLATTENED
from inferplan.review.reading.preview import Preview

# Resources that do not exist after the change, or that the stack only reads.
_WITHOUT = ("read", "delete", "delete-replaced", "discard", "discard-replaced")


def with_own_verdict(
    preview: Preview, path: Path, settings: Mapping[str, Any], *, required: bool = False
) -> Preview:
    """`preview`, read from the events in `path`, with the violations that the pack of this
    installation reports and the events do not state. It is unchanged if they are incomplete, or
    name no pack of inferplan and none is `required`.
    """
    is_judged = any(name.partition("|")[0] == PACK for name in preview.policy_packs)
    if not (is_judged or required) or preview.incomplete:
        return preview
    try:
        accepted = parse_settings(dict(settings), all_rules(), today(), where=preview.stack)
    except SettingsError:
        # The pack that judged the change rejects them too, unless the change edits it.
        accepted = Settings(today=today())
    try:
        stack = _stack(preview, path)
    except RecursionError:
        return replace(preview, incomplete="a value is nested too deeply for the policy pack")
    report = check_stack(stack, accepted)
    stated = {
        (each.policy_name, each.resource_urn)
        for each in map(read_rule, preview.policies)
        if each.enforcement_level == "mandatory"
    }
    unstated = tuple(
        each
        for each in report.violations
        # Events hide secrets, so what depends on them is not evaluated here.
        if each.state is State.VIOLATION and (each.rule.id, each.urn) not in stated
    )
    events = policy_events(replace(report, violations=unstated, advice=(), expired=()))
    return replace(
        preview,
        unstated=tuple(PolicyEvent.model_validate(each["policyEvent"]) for each in events),
    )


def _stack(preview: Preview, path: Path) -> Stack:
    """The stack after the change in the events of `path`."""
    resources: dict[str, Resource] = {}
    outputs: Mapping[str, Any] = {}
    with path.open("rb") as stream:
        for _, record in records(stream, path.name, lambda _: None):
            step = mapping(
                record.get("resourcePreEvent") or record.get("resOutputsEvent"), "metadata"
            )
            state = mapping(step, "new")
            if step.get("type") == STACK_TYPE:
                outputs = mapping(state, "outputs") or outputs
            elif state and step.get("op") not in _WITHOUT:
                urn = str(step.get("urn"))
                resources[urn] = _resource(
                    urn,
                    state,
                    str(step.get("provider") or "").rpartition("::")[0],
                    lists_dependencies=preview.planner == "inferplan",
                )
    return Stack(preview.stack, resources.values(), outputs=outputs)


class _Unlisted(tuple[str, ...]):
    """Dependencies that the events do not list: a rule that reads them cannot be evaluated."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise UnseenFieldError(Field({}), "is not in the events")


class _UnlistedByProperty(dict[str, tuple[str, ...]]):
    """The same by property, which events never list."""

    def get(self, *_: object) -> NoReturn:
        raise UnseenFieldError(Field({}), "is not in the events")


def _resource(
    urn: str, state: Mapping[str, Any], provider: str, *, lists_dependencies: bool
) -> Resource:
    return Resource(
        type=str(state.get("type")),
        urn=urn,
        name=name_of(urn),
        inputs=_readable(mapping(state, "inputs")),
        parent=str(state.get("parent") or ""),
        dependencies=tuple(state.get("dependencies") or ()) if lists_dependencies else _Unlisted(),
        property_dependencies=_UnlistedByProperty(),
        provider=provider,
        custom=bool(state.get("custom")),
        protect=bool(state.get("protect")),
        retain_on_delete=bool(state.get("retainOnDelete")),
        ignore_changes=tuple(state.get("ignoreChanges") or ()),
    )


def _readable(value: Any) -> Any:
    """`value` with `UNKNOWN` for every part that the events do not show."""
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return (
            UNKNOWN
            if value.get(SIGNATURE) == SECRET
            else {key: _readable(item) for key, item in value.items()}
        )
    return UNKNOWN if isinstance(value, str) and value in (FLATTENED, UNKNOWN_TEXT) else value
