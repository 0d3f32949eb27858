"""A plan as the engine events of `pulumi preview --json` (apitype.EngineEvent of engine 3.260, one
JSON object per line).
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inferplan.kube.marks import UNKNOWN_TEXT
from inferplan.pulumi_engine.plan.states import ResourceState, States
from inferplan.pulumi_engine.plan.steps import Plan, Step
from inferplan.pulumi_engine.providers.kubernetes import is_object, metadata_of
from inferplan.pulumi_engine.recording import PROVIDER_PREFIX, STACK_TYPE, make_urn, stack_urn
from inferplan.pulumi_engine.values import to_json

Event = dict[str, Any]
_SEVERITY_PREFIXES = {"info": "", "warning": "warning: ", "error": "error: "}


def to_ndjson(events: Iterator[Event]) -> bytes:
    lines = io.BytesIO()  # a fleet has hundreds of MiB, and a list of them would be as large
    lines.writelines(
        json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        for event in events
    )
    return lines.getvalue()


def events_of(
    plan: Plan,
    *,
    against: str = "",
    judged: Iterable[Event] = (),
    packs: Mapping[str, str] | None = None,
) -> Iterator[Event]:
    """The events of `plan` against a commit or file, with policy events and packs. Timestamps are
    0: equal plans give equal bytes.
    """
    return _numbered(_bodies(plan, against, judged, packs or {}))


def refusal_events(project: str, stack: str, message: str) -> Iterator[Event]:
    """The events of a run that failed before its plan, as an engine reports a program that fails."""
    yield from _numbered(
        (
            _prelude({}, "", None),
            _diagnostic(stack_urn(stack, project), message, "error"),
            _summary({}, packs={}, result="failed"),
            {"cancelEvent": {}},
        )
    )


def _numbered(bodies: Iterable[Event]) -> Iterator[Event]:
    for sequence, body in enumerate(bodies):
        yield {"sequence": sequence, "timestamp": 0, **body}


def _prelude(config: Mapping[str, str], against: str, earlier: Mapping[str, str] | None) -> Event:
    # Not an engine's keys: readers can distinguish a plan of declarations from a preview.
    body: Event = {
        "config": dict(config),
        "planner": "inferplan",
        **({"against": against} if against else {}),
    }
    return {"preludeEvent": body if earlier is None else {**body, "againstConfig": dict(earlier)}}


def _summary(counts: Mapping[str, int], *, packs: Mapping[str, str], result: str) -> Event:
    body = {
        "maybeCorrupt": False,
        "durationSeconds": 0,
        "resourceChanges": dict(sorted(counts.items())),
    }
    return {
        "summaryEvent": {**body, "PolicyPacks": dict(packs), "isPreview": True, "result": result}
    }


def _bodies(
    plan: Plan, against: str, judged: Iterable[Event], packs: Mapping[str, str]
) -> Iterator[Event]:
    yield _prelude(plan.states.config, against, plan.before.config if plan.before else None)
    stack_op = "same" if plan.before else "create"
    yield _resource_event("resourcePreEvent", _stack_metadata(plan, stack_op, final=False))
    for each in plan.states.diagnostics:
        yield _diagnostic(each.urn, each.message, each.severity)
    for step in plan.steps:
        if step.op != "delete":
            yield from _step_events(step, plan)
    for step in plan.steps:
        if step.op == "replace" and step.change and not step.change.delete_first:
            yield from _pair(_metadata("delete-replaced", step, plan, new=False))
        elif step.op == "delete":
            yield from _pair(_metadata("delete", step, plan, new=False))
    yield from judged
    yield _resource_event("resOutputsEvent", _stack_metadata(plan, stack_op, final=True))
    counts = dict(plan.counts)
    counts[stack_op] = counts.get(stack_op, 0) + 1
    yield _summary(counts, packs=packs, result="succeeded")
    yield {"cancelEvent": {}}


def _step_events(step: Step, plan: Plan) -> Iterator[Event]:
    if step.op != "replace" or step.change is None:
        yield from _pair(_metadata(step.op, step, plan))
        return
    create = _metadata("create-replacement", step, plan)
    replace = _metadata("replace", step, plan)
    if step.change.delete_first:
        yield from _pair(_metadata("delete-replaced", step, plan, new=False))
        yield from _pair(replace)
        yield from _pair(create)
    else:
        yield from _pair(create)
        yield from _pair(replace)


def _pair(metadata: Event) -> Iterator[Event]:
    before = dict(metadata)
    if metadata["op"].startswith("create") and metadata["new"] is not None:
        before["new"] = {**metadata["new"], "outputs": {}}
    if metadata["op"] == "create-replacement" and metadata["old"] is not None:
        metadata["old"] = {**metadata["old"], "delete": True}
    yield _resource_event("resourcePreEvent", before)
    yield _resource_event("resOutputsEvent", metadata)


def _resource_event(kind: str, metadata: Event) -> Event:
    return {kind: {"metadata": metadata, "planning": True}}


def _diagnostic(urn: str, message: str, severity: str) -> Event:
    body: Event = {"urn": urn} if urn else {}
    prefix = _SEVERITY_PREFIXES.get(severity, "")
    if prefix:
        body["prefix"] = prefix
    return {
        "diagnosticEvent": {
            **body,
            "message": f"{message}\n",
            "color": "never",
            "severity": severity,
        }
    }


def _metadata(op: str, step: Step, plan: Plan, *, new: bool = True) -> Event:
    goal = step.new if new else None
    subject = goal or step.old
    if subject is None:
        raise ValueError(f"a step without a state: {step.urn}")
    metadata: Event = {
        "op": op,
        "urn": step.urn,
        "type": subject.type,
        "old": _state(step.old, plan.before or plan.states, exists=True) if step.old else None,
        "new": _state(goal, plan.states, exists=op in ("same", "update")) if goal else None,
    }
    if op in ("delete-replaced", "replace") and metadata["old"]:
        metadata["old"]["delete"] = True
    # An engine's events have no dependencies; the report draws them.
    if subject.dependencies:
        (metadata["new"] or metadata["old"])["dependencies"] = list(subject.dependencies)
    change = step.change if new else None
    differences = change.differences if change and op != "same" else ()
    keys = [each.text for each in differences if each.replacing]
    if keys:
        metadata["keys"] = keys
    if change and change.ignored:
        metadata["ignoredDiffs"] = list(change.ignored)
    metadata["detailedDiff"] = (
        {each.text: _property_diff(each, subject) for each in differences} if differences else None
    )
    if op in ("create", "update", "delete", "same", "replace", "read"):
        metadata["logical"] = True
    metadata["provider"] = _provider(subject, plan.states)
    return metadata


def _property_diff(difference: Any, subject: ResourceState) -> Event:
    # The Kubernetes provider's paths are those of the object's state, and of the inputs for deleted
    # properties.
    inputs = difference.kind == "delete" or not is_object(subject.type, subject.inputs)
    return {
        "diffKind": f"{difference.kind}-replace" if difference.replacing else difference.kind,
        "inputDiff": inputs,
    }


def _state(state: ResourceState, states: States, *, exists: bool) -> Event:
    inputs = to_json(state.inputs, digests=False)
    event: Event = {"type": state.type, "urn": state.urn}
    if state.custom:
        event["custom"] = True
    event |= {"id": state.id or (_id(state) if exists else ""), "parent": state.parent}
    if state.protect:
        event["protect"] = True
    if state.read:
        event["external"] = True
    if state.retain_on_delete:
        event["retainOnDelete"] = True
    # An engine's events have no other options; its states have the first two by these names.
    options = {"ignoreChanges": state.ignore_changes, "replaceOnChanges": state.replace_on_changes}
    event |= {name: list(paths) for name, paths in options.items() if paths}
    event |= {"deleteBeforeReplace": True} if state.delete_before_replace else {}
    return event | {"inputs": inputs, "outputs": inputs, "provider": _provider(state, states)}


def _id(state: ResourceState) -> str:
    """The Kubernetes provider's id of an existing object; other ids are known after an update."""
    metadata = metadata_of(state.inputs) if is_object(state.type, state.inputs) else {}
    return "/".join(
        str(metadata[part]) for part in ("namespace", "name") if isinstance(metadata.get(part), str)
    )


def _provider(state: ResourceState, states: States) -> str:
    if not state.custom or state.type.startswith(PROVIDER_PREFIX):
        return ""
    if state.provider:
        return f"{state.provider}::{UNKNOWN_TEXT}"
    package = state.type.partition(":")[0]
    name = f"default_{state.version.replace('.', '_')}" if state.version else "default"
    urn = make_urn(
        stack=states.stack,
        project=states.project,
        parent="",
        type_=f"{PROVIDER_PREFIX}{package}",
        name=name,
    )
    return f"{urn}::{UNKNOWN_TEXT}"


def _stack_metadata(plan: Plan, op: str, *, final: bool) -> Event:
    def state(states: States, outputs: Any) -> Event:
        urn = stack_urn(states.stack, states.project)
        shown = to_json(dict(outputs), digests=False)
        return {
            "type": STACK_TYPE,
            "urn": urn,
            "id": "",
            "parent": "",
            "inputs": {},
            "outputs": shown,
            "provider": "",
        }

    before = plan.before
    outputs_before = before.outputs if before else {}
    return {
        "op": op,
        "urn": stack_urn(plan.states.stack, plan.states.project),
        "type": STACK_TYPE,
        "old": state(before, outputs_before) if before else None,
        "new": state(plan.states, plan.states.outputs if final else outputs_before),
        "detailedDiff": None,
        "logical": True,
        "provider": "",
    }
